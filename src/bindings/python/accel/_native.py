"""The functions of libaccel with their argument types, and conversions of strings and errors."""
from __future__ import annotations

import ctypes as C
from typing import Any, Iterable, List, Optional, Sequence, Union

from . import _types as T
from ._errors import BY_STATUS, AccelError
from ._library import load

lib = load()

_handle = C.c_void_p
_texts = C.POINTER(C.c_char_p)



def _out(kind: Any) -> Any:
    return C.POINTER(C.POINTER(kind))


def _declare(name: str, result: Any, *arguments: Any) -> None:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, list(arguments)


_TABLE = [  # name, result, arguments
    ("accel_version", C.c_char_p),
    ("accel_status_name", C.c_char_p, C.c_int),
    ("accel_status_text", C.c_char_p, C.c_int),
    ("accel_status_exit_code", C.c_int, C.c_int),
    ("accel_last_error", C.c_char_p),
    ("accel_last_remedy", C.c_char_p),
    ("accel_params_default", T.accel_params),
    ("accel_create", C.c_int, C.POINTER(T.accel_params), C.POINTER(_handle)),
    ("accel_destroy", None, C.POINTER(_handle)),
    ("accel_follow", C.c_int, _handle),
    ("accel_thread_count", C.c_uint32, _handle),
    ("accel_string_free", None, C.POINTER(_handle)),
    ("accel_strings_free", None, _out(T.accel_strings)),
    ("accel_detect", C.c_int, _handle, C.c_int, _out(T.accel_devices)),
    ("accel_devices_free", None, _out(T.accel_devices)),
    ("accel_detect_json", C.c_int, _handle, C.c_int, C.POINTER(_handle)),
    ("accel_is_rocm_available", C.c_int, _handle, C.POINTER(C.c_int)),
    ("accel_is_cuda_available", C.c_int, _handle, C.POINTER(C.c_int)),
    ("accel_get_device", C.c_int, _handle, C.c_char_p, C.POINTER(_handle)),
    ("accel_device_close", None, C.POINTER(_handle)),
    ("accel_get_device_info", C.POINTER(T.accel_device_info), _handle),
    ("accel_get_device_type", C.c_char_p, _handle),
    ("accel_device_info_text", C.c_int, _handle, C.POINTER(_handle)),
    ("accel_memory_summary_default", T.accel_memory_summary),
    ("accel_device_memory", C.c_int, _handle, C.POINTER(T.accel_memory_summary)),
    ("accel_probe_precision", C.c_int, _handle, C.c_char_p),
    ("accel_runtime_version", C.c_int, _handle, C.c_char_p, C.POINTER(_handle), C.POINTER(_handle)),
    ("accel_to_device", C.c_int, _handle, C.POINTER(T.accel_tensor), C.POINTER(_handle)),
    ("accel_to_host", C.c_int, _handle, _out(T.accel_tensors)),
    ("accel_device_tensor_view", C.POINTER(T.accel_tensor), _handle),
    ("accel_device_tensor_free", None, C.POINTER(_handle)),
    ("accel_empty_cache", C.c_int, _handle, _handle, C.POINTER(C.c_uint64)),
    ("accel_synchronize", C.c_int, _handle),
    ("accel_get_device_stream", C.c_int, _handle, C.POINTER(_handle)),
    ("accel_stream_to_device", C.c_int, _handle, C.POINTER(T.accel_tensor), C.POINTER(_handle)),
    ("accel_stream_to_host", C.c_int, _handle, _handle, C.c_void_p, C.c_uint64),
    ("accel_registry_json", C.c_int, _handle, C.c_char_p, C.POINTER(_handle)),
    ("accel_registry_filter_default", T.accel_registry_filter),
    ("accel_registry_list", C.c_int, _handle, C.POINTER(T.accel_registry_filter), _out(T.accel_strings)),
    ("accel_registry_add", C.c_int, _handle, C.c_char_p),
    ("accel_is_hardware_supported", C.c_int, _handle, C.c_char_p, C.c_char_p, C.POINTER(C.c_int)),
    ("accel_is_precision_supported", C.c_int, _handle, C.c_char_p, C.c_char_p, C.c_char_p, C.POINTER(C.c_int)),
    ("accel_get_dependencies", C.c_int, _handle, C.c_char_p, C.c_char_p, C.c_char_p, _out(T.accel_strings)),
    ("accel_set_precision_profile", C.c_int, _handle, C.c_char_p, C.c_char_p, _texts, C.POINTER(C.c_int), C.c_uint32, C.c_int),
    ("accel_run_precision_tests", C.c_int, _handle, C.c_char_p, _texts, C.c_uint32, _texts, C.c_uint32, _out(T.accel_test_report)),
    ("accel_test_report_free", None, _out(T.accel_test_report)),
    ("accel_init_params_default", T.accel_init_params),
    ("accel_init", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_init_params), C.POINTER(_handle)),
    ("accel_cleanup", None, C.POINTER(_handle)),
    ("accel_adapter_load", C.c_int, _handle, C.c_char_p, C.POINTER(_handle)),
    ("accel_adapter_free", None, C.POINTER(_handle)),
    ("accel_placement", C.POINTER(T.accel_placement_report), _handle),
    ("accel_processor_of", C.POINTER(T.accel_processor), _handle),
    ("accel_batch_size_of", C.c_uint32, _handle),
    ("accel_trim", C.c_int, _handle),
    ("accel_self_test", C.c_int, _handle, _out(T.accel_test_report)),
    ("accel_run", C.c_int, _handle, C.POINTER(T.accel_tensors), _out(T.accel_tensors)),
    ("accel_run_named", C.c_int, _handle, C.POINTER(T.accel_tensors), _texts, C.c_uint32, _out(T.accel_tensors)),
    ("accel_tensors_free", None, _out(T.accel_tensors)),
    ("accel_tensors_read", C.c_int, C.c_char_p, _out(T.accel_tensors)),
    ("accel_tensors_write", C.c_int, C.c_char_p, C.POINTER(T.accel_tensors)),
    ("accel_endpoint_io", C.c_int, _handle, _out(T.accel_strings), _out(T.accel_strings)),
    ("accel_queue_of", _handle, _handle),
    ("accel_queue_capacity", C.c_uint32, _handle),
    ("accel_queue_waiting", C.c_uint32, _handle),
    ("accel_queue_statistics", C.c_int, _handle, C.POINTER(T.accel_queue_stats)),
    ("accel_submit", C.c_int, _handle, C.POINTER(T.accel_tensors), C.POINTER(_handle)),
    ("accel_request_default", T.accel_request, C.c_int),
    ("accel_submit_request", C.c_int, _handle, C.POINTER(T.accel_request), C.POINTER(_handle)),
    ("accel_ticket_cancel", None, _handle),
    ("accel_wait_embeddings", C.c_int, C.POINTER(_handle), C.c_int64, _out(T.accel_embeddings)),
    ("accel_wait_classifications", C.c_int, C.POINTER(_handle), C.c_int64, _out(T.accel_classifications)),
    ("accel_wait_ranking", C.c_int, C.POINTER(_handle), C.c_int64, _out(T.accel_ranking)),
    ("accel_pool_params_default", T.accel_pool_params),
    ("accel_pool_open", C.c_int, _handle, C.POINTER(T.accel_pool_params), C.POINTER(_handle)),
    ("accel_pool_close", None, C.POINTER(_handle)),
    ("accel_pool_add", C.c_int, _handle, C.c_char_p, C.c_char_p, C.POINTER(T.accel_init_params), C.c_uint32),
    ("accel_pool_acquire", C.c_int, _handle, C.c_char_p, C.c_int64, C.POINTER(_handle)),
    ("accel_pool_ref_endpoint", _handle, _handle),
    ("accel_pool_ref_queue", _handle, _handle),
    ("accel_pool_release", None, C.POINTER(_handle)),
    ("accel_pool_pin", C.c_int, _handle, C.c_char_p, C.c_int),
    ("accel_pool_move", C.c_int, _handle, C.c_char_p, C.c_char_p),
    ("accel_pool_queue_statistics", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_queue_stats)),
    ("accel_pool_stats_of", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_pool_stats)),
    ("accel_pool_json", C.c_int, _handle, C.POINTER(_handle)),
    ("accel_submit_texts", C.c_int, _handle, _texts, C.c_uint32, C.POINTER(_handle)),
    ("accel_wait", C.c_int, C.POINTER(_handle), C.c_int64, _out(T.accel_tensors)),
    ("accel_embed_params_default", T.accel_embed_params),
    ("accel_embed_with", C.c_int, _handle, _texts, C.c_uint32, C.POINTER(T.accel_embed_params), _out(T.accel_embeddings)),
    ("accel_embeddings_free", None, _out(T.accel_embeddings)),
    ("accel_cosine", C.c_double, C.POINTER(C.c_float), C.POINTER(C.c_float), C.c_size_t),
    ("accel_classify_params_default", T.accel_classify_params),
    ("accel_classify", C.c_int, _handle, _texts, _texts, C.c_uint32, C.POINTER(T.accel_classify_params), _out(T.accel_classifications)),
    ("accel_zero_shot_params_default", T.accel_zero_shot_params),
    ("accel_zero_shot_classify", C.c_int, _handle, _texts, C.c_uint32, _texts, C.c_uint32, C.POINTER(T.accel_zero_shot_params), _out(T.accel_classifications)),
    ("accel_classifications_free", None, _out(T.accel_classifications)),
    ("accel_rerank_params_default", T.accel_rerank_params),
    ("accel_rerank", C.c_int, _handle, C.c_char_p, _texts, C.c_uint32, C.POINTER(T.accel_rerank_params), _out(T.accel_ranking)),
    ("accel_ranking_free", None, _out(T.accel_ranking)),
    ("accel_preprocess_params_default", T.accel_preprocess_params),
    ("accel_preprocess", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_preprocess_params), _out(T.accel_tensors)),
    ("accel_classify_images", C.c_int, _handle, C.POINTER(T.accel_media), C.c_uint32, C.POINTER(T.accel_classify_params), _out(T.accel_classifications)),
    ("accel_classify_sounds", C.c_int, _handle, C.POINTER(T.accel_media), C.c_uint32, C.POINTER(T.accel_classify_params), _out(T.accel_classifications)),
    ("accel_zero_shot_audio", C.c_int, _handle, C.POINTER(T.accel_media), C.c_uint32, _texts, C.c_uint32, C.c_char_p, C.c_double, _out(T.accel_classifications)),
    ("accel_zero_shot_image", C.c_int, _handle, C.POINTER(T.accel_media), C.c_uint32, _texts, C.c_uint32, C.c_char_p, _out(T.accel_classifications)),
    ("accel_transcribe_params_default", T.accel_transcribe_params),
    ("accel_transcribe", C.c_int, _handle, C.POINTER(T.accel_media), C.c_uint32, C.POINTER(T.accel_transcribe_params), _out(T.accel_transcripts)),
    ("accel_transcripts_free", None, _out(T.accel_transcripts)),
    ("accel_detect_params_default", T.accel_detect_params),
    ("accel_detect_objects", C.c_int, _handle, C.POINTER(T.accel_media), C.c_uint32, C.POINTER(T.accel_detect_params), _out(T.accel_detections)),
    ("accel_detections_free", None, _out(T.accel_detections)),
    ("accel_draw_objects", C.c_int, C.POINTER(T.accel_media), C.POINTER(T.accel_detection), C.c_uint32, C.c_char_p),
    ("accel_text_to_image_params_default", T.accel_text_to_image_params),
    ("accel_text_to_image", C.c_int, _handle, C.POINTER(C.c_char_p), C.c_uint32, C.POINTER(T.accel_text_to_image_params), _out(T.accel_generated_images)),
    ("accel_generated_images_free", None, _out(T.accel_generated_images)),
    ("accel_generated_image_write", C.c_int, C.POINTER(T.accel_generated_image), C.c_char_p),
    ("accel_forecast_params_default", T.accel_forecast_params),
    ("accel_forecast_series", C.c_int, _handle, C.POINTER(T.accel_series), C.c_uint32, C.POINTER(T.accel_forecast_params), _out(T.accel_forecasts)),
    ("accel_forecasts_free", None, _out(T.accel_forecasts)),
    ("accel_text_to_speech_params_default", T.accel_text_to_speech_params),
    ("accel_text_to_speech", C.c_int, _handle, C.POINTER(C.c_char_p), C.c_uint32, C.POINTER(T.accel_text_to_speech_params), _out(T.accel_waveforms)),
    ("accel_waveforms_free", None, _out(T.accel_waveforms)),
    ("accel_segment_params_default", T.accel_segment_params),
    ("accel_segment_images", C.c_int, _handle, C.POINTER(T.accel_media), C.c_uint32, C.POINTER(T.accel_segment_params), _out(T.accel_segmentations)),
    ("accel_segmentations_free", None, _out(T.accel_segmentations)),
    ("accel_estimate_depth", C.c_int, _handle, C.POINTER(T.accel_media), C.c_uint32, _out(T.accel_depths)),
    ("accel_depths_free", None, _out(T.accel_depths)),
    ("accel_extract_image_features", C.c_int, _handle, C.POINTER(T.accel_media), C.c_uint32, C.c_int, _out(T.accel_tensors)),
    ("accel_document_params_default", T.accel_document_params),
    ("accel_answer_documents", C.c_int, _handle, C.POINTER(T.accel_document_question), C.c_uint32, C.POINTER(T.accel_document_params), _out(T.accel_document_answers)),
    ("accel_document_answers_free", None, _out(T.accel_document_answers)),
    ("accel_document_json", C.c_int, _handle, C.c_char_p, C.POINTER(C.c_void_p)),
    ("accel_draw_depth", C.c_int, C.POINTER(T.accel_depths), C.c_uint32, C.c_uint32, C.c_char_p),
    ("accel_draw_segments", C.c_int, C.POINTER(T.accel_media), C.POINTER(T.accel_segmentations), C.c_uint32, C.c_char_p),
    ("accel_classify_tokens_params_default", T.accel_classify_tokens_params),
    ("accel_classify_tokens", C.c_int, _handle, _texts, C.c_uint32, C.POINTER(T.accel_classify_tokens_params), _out(T.accel_token_entities)),
    ("accel_token_entities_free", None, _out(T.accel_token_entities)),
    ("accel_qa_params_default", T.accel_qa_params),
    ("accel_qa", C.c_int, _handle, _texts, _texts, C.c_uint32, C.POINTER(T.accel_qa_params), _out(T.accel_answers)),
    ("accel_answers_free", None, _out(T.accel_answers)),
    ("accel_fill_params_default", T.accel_fill_params),
    ("accel_fill_mask", C.c_int, _handle, _texts, C.c_uint32, C.POINTER(T.accel_fill_params), _out(T.accel_fills)),
    ("accel_fills_free", None, _out(T.accel_fills)),
    ("accel_generate_params_default", T.accel_generate_params),
    ("accel_generate", C.c_int, _handle, _texts, C.c_uint32, C.POINTER(T.accel_generate_params), _out(T.accel_generations)),
    ("accel_generate_ids", C.c_int, _handle, C.POINTER(C.POINTER(C.c_int32)), C.POINTER(C.c_uint32), C.c_uint32,
     C.POINTER(T.accel_generate_params), _out(T.accel_generations)),
    ("accel_generate_images", C.c_int, _handle, C.POINTER(T.accel_image_prompt), C.c_uint32, C.POINTER(T.accel_generate_params), _out(T.accel_generations)),
    ("accel_generate_regions", C.c_int, _handle, C.POINTER(T.accel_image_prompt), C.c_uint32, C.POINTER(T.accel_generate_params), _out(T.accel_region_answers)),
    ("accel_names_regions", C.c_int32, _handle),
    ("accel_region_answers_free", None, _out(T.accel_region_answers)),
    ("accel_generations_free", None, _out(T.accel_generations)),
    ("accel_text2text_params_default", T.accel_text2text_params),
    ("accel_text2text", C.c_int, _handle, _texts, C.c_uint32, C.POINTER(T.accel_text2text_params), _out(T.accel_generations)),
    ("accel_translate", C.c_int, _handle, _texts, C.c_uint32, C.c_char_p, C.c_char_p, C.POINTER(T.accel_generate_params), _out(T.accel_generations)),
    ("accel_summarize", C.c_int, _handle, _texts, C.c_uint32, C.POINTER(T.accel_generate_params), _out(T.accel_generations)),
    ("accel_template_params_default", T.accel_template_params),
    ("accel_template_open", C.c_int, _handle, C.c_char_p, C.POINTER(_handle)),
    ("accel_template_of", C.c_int, _handle, C.POINTER(_handle)),
    ("accel_template_close", None, C.POINTER(_handle)),
    ("accel_template_render", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_template_params), C.POINTER(_handle)),
    ("accel_tools_params_default", T.accel_tools_params),
    ("accel_tool_families", C.POINTER(T.accel_strings)),
    ("accel_tools_open", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_tools_params), C.POINTER(_handle)),
    ("accel_tools_close", None, C.POINTER(_handle)),
    ("accel_tools_family", C.c_char_p, _handle),
    ("accel_tools_grammar", C.c_char_p, _handle),
    ("accel_tools_special_tokens", C.c_uint32, _handle),
    ("accel_tool_parser_open", C.c_int, _handle, C.POINTER(_handle)),
    ("accel_tool_parser_feed", C.c_int, _handle, C.c_char_p, T.ToolFunction, C.c_void_p),
    ("accel_tool_parser_end", C.c_int, _handle, T.ToolFunction, C.c_void_p),
    ("accel_tool_parser_close", None, C.POINTER(_handle)),
    ("accel_rag_params_default", T.accel_rag_params),
    ("accel_rag_open", C.c_int, _handle, C.c_char_p, _handle, C.POINTER(T.accel_rag_params), C.POINTER(_handle)),
    ("accel_rag_close", None, C.POINTER(_handle)),
    ("accel_rag_describe", C.c_int, _handle, _out(T.accel_rag_info)),
    ("accel_rag_info_free", None, _out(T.accel_rag_info)),
    ("accel_rag_add", C.c_int, _handle, _texts, C.c_uint32, _out(T.accel_rag_changes)),
    ("accel_rag_changes_free", None, _out(T.accel_rag_changes)),
    ("accel_rag_add_text", C.c_int, _handle, C.c_char_p, C.c_char_p, C.c_int),
    ("accel_rag_remove", C.c_int, _handle, _texts, C.c_uint32, C.POINTER(C.c_uint32)),
    ("accel_rag_search_params_default", T.accel_rag_search_params),
    ("accel_rag_search", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_rag_search_params), _out(T.accel_rag_passages)),
    ("accel_rag_passages_free", None, _out(T.accel_rag_passages)),
    ("accel_rag_answer_query", C.c_int, _handle, _handle, C.c_char_p, C.POINTER(T.accel_rag_search_params), C.POINTER(T.accel_generate_params),
     _out(T.accel_rag_answer)),
    ("accel_rag_answer_free", None, _out(T.accel_rag_answer)),
    ("accel_chat_params_default", T.accel_chat_params),
    ("accel_chat_open", C.c_int, _handle, C.POINTER(T.accel_chat_params), C.POINTER(_handle)),
    ("accel_chat_close", None, C.POINTER(_handle)),
    ("accel_chat_send", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_generate_params), _out(T.accel_generations)),
    ("accel_chat_generate", C.c_int, _handle, C.POINTER(T.accel_generate_params), _out(T.accel_generations)),
    ("accel_chat_messages", C.c_int, _handle, C.POINTER(_handle)),
    ("accel_chat_set_messages", C.c_int, _handle, C.c_char_p),
    ("accel_chat_length", C.c_uint32, _handle),
    ("accel_chat_reused", C.c_uint32, _handle),
    ("accel_submit_generate", C.c_int, _handle, C.c_char_p, C.POINTER(C.c_int32), C.c_uint32, C.POINTER(T.accel_generate_params), C.POINTER(_handle)),
    ("accel_wait_generations", C.c_int, C.POINTER(_handle), C.c_int64, _out(T.accel_generations)),
    ("accel_session_open", C.c_int, _handle, C.POINTER(_handle)),
    ("accel_session_close", None, C.POINTER(_handle)),
    ("accel_session_feed", C.c_int, _handle, C.c_char_p, C.c_int),
    ("accel_session_feed_ids", C.c_int, _handle, C.POINTER(C.c_int32), C.c_uint32),
    ("accel_session_generate", C.c_int, _handle, C.POINTER(T.accel_generate_params), _out(T.accel_generations)),
    ("accel_session_length", C.c_uint32, _handle),
    ("accel_session_ids", C.POINTER(C.c_int32), _handle),
    ("accel_session_truncate", C.c_int, _handle, C.c_uint32),
    ("accel_session_fork", C.c_int, _handle, C.POINTER(_handle)),
    ("accel_session_save", C.c_int, _handle, C.c_char_p),
    ("accel_session_load", C.c_int, _handle, C.c_char_p, C.POINTER(_handle)),
    ("accel_tokenizer_open", C.c_int, _handle, C.c_char_p, C.POINTER(_handle)),
    ("accel_tokenizer_of", _handle, _handle),
    ("accel_tokenizer_close", None, C.POINTER(_handle)),
    ("accel_tokenize", C.c_int, _handle, _texts, C.c_uint32, C.c_int, _out(T.accel_token_ids)),
    ("accel_token_ids_free", None, _out(T.accel_token_ids)),
    ("accel_detokenize", C.c_int, _handle, C.POINTER(C.c_int32), C.c_uint32, C.c_int, C.POINTER(_handle)),
    ("accel_set_profile", C.c_int, _handle, T.ProfileFunction, C.c_void_p),
    ("accel_plan_params_default", T.accel_plan_params),
    ("accel_plan_steps", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_plan_params), T.ProfileFunction, C.c_void_p),
    ("accel_model_io", C.c_int, _handle, C.c_char_p, C.c_char_p, _out(T.accel_strings), _out(T.accel_strings)),
    ("accel_streaming", C.c_int, _handle, C.POINTER(T.accel_stream_stats)),
    ("accel_replica_count", C.c_uint32, _handle),
    ("accel_replica_statistics", C.c_int, _handle, C.c_uint32, C.POINTER(T.accel_replica_stats)),
    ("accel_stream_read", C.c_int, _handle, C.POINTER(C.c_uint64), C.POINTER(C.c_double)),
    ("accel_fit_params_default", T.accel_fit_params),
    ("accel_fit", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_fit_params), _out(T.accel_fit_report)),
    ("accel_fit_report_free", None, _out(T.accel_fit_report)),
    ("accel_cache_ls", C.c_int, _handle, _out(T.accel_cache_list)),
    ("accel_cache_list_free", None, _out(T.accel_cache_list)),
    ("accel_cache_prune", C.c_int, _handle, C.c_uint64, C.POINTER(C.c_uint32), C.POINTER(C.c_uint64)),
    ("accel_verify", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_init_params), C.c_char_p, _out(T.accel_verify_report)),
    ("accel_verify_report_free", None, _out(T.accel_verify_report)),
    ("accel_program_dump", C.c_int, _handle, C.c_char_p, C.POINTER(_handle)),
    ("accel_precision_profile_json", C.c_int, _handle, C.POINTER(_handle)),
    ("accel_architectures", C.c_int, _out(T.accel_strings)),
    ("accel_architecture_task", C.c_char_p, C.c_char_p),
    ("accel_find_model", C.c_int, _handle, C.c_char_p, C.POINTER(_handle)),
    ("accel_check_model", C.c_int, _handle, C.c_char_p, C.POINTER(T.accel_init_params)),
    ("accel_matrix_json", C.c_int, _handle, C.c_char_p, C.POINTER(_handle)),
]
for _row in _TABLE:
    _declare(*_row)

VERSION = lib.accel_version().decode()
if VERSION.split(".")[:2] != ["0", "1"]:
    raise ImportError(f"libaccel {VERSION} does not fit this package, which is made for 0.1")


def check(status: int) -> None:
    """Raises the exception of a failed call."""
    if status == 0:
        return
    name = lib.accel_status_name(status).decode()
    message = lib.accel_last_error().decode(errors="replace") or lib.accel_status_text(status).decode()
    remedy = lib.accel_last_remedy().decode(errors="replace")
    raise BY_STATUS.get(name, AccelError)(status, name, message, remedy)


def encode(value: Optional[str]) -> Optional[bytes]:
    """A C string, in which U+0000 is C0 80; None stays None."""
    return None if value is None else str(value).encode("utf-8").replace(b"\0", b"\xc0\x80")


def decode(value: Optional[bytes]) -> str:
    return value.replace(b"\xc0\x80", b"\0").decode("utf-8", "replace") if value else ""


def text_array(values: Sequence[Optional[str]]) -> Any:
    return (C.c_char_p * max(len(values), 1))(*[encode(v) for v in values])


Media = Union[str, bytes]


def media_array(files: Sequence[Media]) -> Any:
    """accel_media of paths and of files' bytes; their memory lives as long as the array."""
    array = (T.accel_media * max(len(files), 1))()
    array.keep = [encode(f) if isinstance(f, str) else C.create_string_buffer(bytes(f), len(f)) for f in files]
    for item, source, keep in zip(array, files, array.keep):
        if isinstance(source, str):
            item.name = keep
        else:
            item.name, item.data, item.n = b"the bytes given", C.cast(keep, C.c_void_p).value, len(source)
    return array


def strings_struct(values: Iterable[str]) -> T.accel_strings:
    """An accel_strings; its array lives as long as the struct."""
    items = list(values)
    array = text_array(items)
    struct = T.accel_strings(len(items), C.cast(array, _texts))
    struct.keep = array
    return struct


def string_list(pointer: Any) -> List[str]:
    """The strings of a POINTER(accel_strings); [] for NULL."""
    return [decode(pointer.contents.item[i]) for i in range(pointer.contents.n)] if pointer else []


def take_string(pointer: C.c_void_p) -> str:
    """Copies a string that the library hands out, and frees it."""
    value = C.cast(pointer, C.c_char_p).value
    lib.accel_string_free(C.byref(pointer))
    return decode(value)
