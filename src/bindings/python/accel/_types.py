"""The structs of accel.h, field for field (held to the C compiler's layout by tests/python/test_bindings.py)."""
from __future__ import annotations

import ctypes as C
from typing import Any

MAX_RANK = 6
F32, F16, BF16, I32, I64, I8, U8, F64, BOOL = 0, 1, 2, 3, 4, 5, 6, 13, 14

text = C.c_char_p
u32, i32, u64, i64, f64 = C.c_uint32, C.c_int32, C.c_uint64, C.c_int64, C.c_double

LogFunction = C.CFUNCTYPE(None, C.c_void_p, C.c_int, text)
ProgressFunction = C.CFUNCTYPE(None, C.c_void_p, text, u64, u64)
CancelFunction = C.CFUNCTYPE(C.c_int, C.c_void_p)


def _struct(name: str, *fields: Any) -> Any:
    """A ctypes struct; `name` is the C name, which the layout test uses."""
    return type(name, (C.Structure,), {"_fields_": list(fields)})


accel_params = _struct(
    "accel_params", ("size", u32), ("threads", u32), ("plugin_path", text), ("registry_path", text), ("cache_directory", text),
    ("log", LogFunction), ("log_user", C.c_void_p), ("log_level", C.c_int), ("allow_software", u32),
    ("progress", ProgressFunction), ("progress_user", C.c_void_p), ("cancel", CancelFunction), ("cancel_user", C.c_void_p),
    ("cache_limit", u64), ("memory_limit", u64), ("no_cache", u32), ("mode", C.c_int), ("rank", u32), ("world", u32), ("transport", text),
    ("job", text))

accel_strings = _struct("accel_strings", ("n", u32), ("item", C.POINTER(text)))

accel_device_info = _struct(
    "accel_device_info", ("name", text), ("hardware", text), ("plugin", text), ("implementation_type", text), ("description", text),
    ("arch", text), ("driver", text), ("id", text), ("type", text), ("compiled", i32), ("loaded", i32), ("found", i32), ("tested", i32),
    ("usable", i32), ("is_amd", i32), ("reason", text), ("remedy", text), ("memory_total", u64), ("memory_free", u64))
accel_devices = _struct("accel_devices", ("n", u32), ("item", C.POINTER(accel_device_info)))

accel_memory_summary = _struct(
    "accel_memory_summary", ("size", u32), ("reserved", u32), ("total", u64), ("free", u64), ("budget", u64), ("shared_with_host", u64),
    ("tensors", u64), ("tensor_bytes", u64), ("endpoints", u64))

accel_registry_filter = _struct("accel_registry_filter", ("size", u32), ("family", text), ("hardware", text), ("precision", text), ("text", text))

accel_test_record = _struct(
    "accel_test_record", ("platform", text), ("hardware", text), ("precision", text), ("device", text), ("implementation_type", text),
    ("input", text), ("output", text), ("passed", i32), ("max_abs", f64), ("max_rel", f64), ("cosine", f64), ("ms", f64), ("weights", text))
accel_test_report = _struct(
    "accel_test_report", ("n", u32), ("key", C.POINTER(text)), ("value", C.POINTER(text)), ("n_records", u32), ("record", C.POINTER(accel_test_record)))

accel_adapter_spec = _struct("accel_adapter_spec", ("path", text), ("scale", f64))
accel_init_params = _struct(
    "accel_init_params", ("size", u32), ("device", text), ("precision", text), ("task", text), ("batch_size", u32), ("max_length", u32),
    ("queue_capacity", u32), ("random_weights", u32), ("seed", u64), ("architecture", text), ("kv_cache", text),
    ("precision_profile", text), ("metric", text), ("min_cosine", f64), ("candidates", text), ("candidates_fn", C.c_void_p), ("candidates_user", C.c_void_p),
    ("prefix_cache_bytes", u64), ("adapters", C.POINTER(accel_adapter_spec)), ("n_adapters", u32), ("enable_adapters", u32), ("decoder", text), ("without_safety_checker", u32), ("reserved", u32), ("variant", text))

accel_pool_params = _struct("accel_pool_params", ("size", u32), ("max_wait_ms", u32), ("memory_limit", u64))
accel_pool_stats = _struct(
    "accel_pool_stats", ("size", u32), ("models", u32), ("loaded", u32), ("references", u32), ("waiting", u32), ("pinned", u32), ("memory_limit", u64),
    ("bytes", u64), ("peak_bytes", u64), ("planned_bytes", u64), ("loads", u64), ("hits", u64), ("evictions", u64), ("failures", u64), ("timeouts", u64),
    ("moves", u64), ("load_seconds", f64), ("wait_seconds", f64))

accel_pool_params = _struct("accel_pool_params", ("size", u32), ("max_wait_ms", u32), ("memory_limit", u64))
accel_pool_stats = _struct(
    "accel_pool_stats", ("size", u32), ("models", u32), ("loaded", u32), ("references", u32), ("waiting", u32), ("pinned", u32), ("memory_limit", u64),
    ("bytes", u64), ("peak_bytes", u64), ("planned_bytes", u64), ("loads", u64), ("hits", u64), ("evictions", u64), ("failures", u64), ("timeouts", u64),
    ("moves", u64), ("load_seconds", f64), ("wait_seconds", f64))

accel_placement_part = _struct(
    "accel_placement_part", ("device", text), ("implementation_type", text), ("first_layer", u32), ("last_layer", u32), ("first_stage", u32),
    ("last_stage", u32), ("weights", u64), ("streams", i32), ("reserved", i32))
accel_placement_candidate = _struct(
    "accel_placement_candidate", ("device", text), ("precision", text), ("source", text), ("reason", text), ("value", f64), ("low", f64), ("high", f64),
    ("cosine", f64))
accel_placement_report = _struct(
    "accel_placement_report", ("model", text), ("label", text), ("device", text), ("precision", text), ("implementation_type", text),
    ("is_amd", i32), ("listed", i32), ("wanted_device", text), ("wanted_precision", text), ("reasons", C.POINTER(accel_strings)), ("weights", text),
    ("part", C.POINTER(accel_placement_part)), ("n_part", u32), ("reserved", u32), ("precision_profile", text), ("precision_kinds", text),
    ("weight_bytes", u64), ("chosen_by", text), ("chosen_why", text), ("metric", text), ("candidate", C.POINTER(accel_placement_candidate)),
    ("n_candidate", u32), ("reserved_2", u32))

accel_stream_stats = _struct(
    "accel_stream_stats", ("size", u32), ("streaming", u32), ("resident", u64), ("staging", u64), ("read_per_run", u64), ("least_limit", u64),
    ("bytes", u64), ("wait_seconds", f64), ("direct", u32), ("reserved", u32), ("load_bytes", u64), ("load_seconds", f64), ("runs", u64),
    ("run_seconds", f64), ("bytes_per_second", f64), ("wait_share", f64), ("expert_memory", u64), ("expert_hits", u64), ("expert_misses", u64),
    ("expert_bytes", u64), ("host", u64), ("disk", u64))

accel_replica_stats = _struct(
    "accel_replica_stats", ("size", u32), ("standing", i32), ("device", text), ("precision", text), ("implementation_type", text), ("reason", text),
    ("runs", u64), ("items", u64), ("units", u64), ("failures", u64), ("trials", u64), ("seconds", f64))

accel_processor = _struct(
    "accel_processor", ("task", text), ("tokenizer", text), ("vocab_size", i64), ("max_length", i64), ("pad_id", i64), ("labels", C.POINTER(accel_strings)),
    ("pooling", text))

accel_tensor = _struct("accel_tensor", ("name", text), ("dtype", C.c_int), ("rank", u32), ("dim", i64 * MAX_RANK), ("data", C.c_void_p))
accel_tensors = _struct("accel_tensors", ("n", u32), ("item", C.POINTER(accel_tensor)))

accel_embed_params = _struct("accel_embed_params", ("size", u32), ("pooling", text), ("normalize", i32), ("prompt", text), ("prompt_name", text),
                             ("adapter", C.c_void_p), ("adapter_scale", f64), ("truncation", text), ("max_length", u32))
accel_embeddings = _struct(
    "accel_embeddings", ("n", u32), ("dim", u32), ("per_token", u32), ("row_start", C.POINTER(u64)), ("data", C.POINTER(C.c_float)),
    ("tokens", u64), ("truncated", u32))

accel_label_score = _struct("accel_label_score", ("id", i64), ("label", text), ("score", f64))
accel_classify_params = _struct("accel_classify_params", ("size", u32), ("top_k", u32), ("function", text), ("adapter", C.c_void_p), ("adapter_scale", f64),
                                ("max_seconds", f64), ("truncation", text), ("max_length", u32))
accel_zero_shot_params = _struct("accel_zero_shot_params", ("size", u32), ("hypothesis", text), ("multi_label", u32), ("adapter", C.c_void_p), ("adapter_scale", f64))
accel_classifications = _struct(
    "accel_classifications", ("n", u32), ("count", C.POINTER(u32)), ("score", C.POINTER(C.POINTER(accel_label_score))), ("tokens", u64), ("truncated", u32))

accel_media = _struct("accel_media", ("name", text), ("data", C.c_void_p), ("n", C.c_size_t))
accel_preprocess_params = _struct(
    "accel_preprocess_params", ("size", u32), ("images", C.POINTER(accel_media)), ("sounds", C.POINTER(accel_media)), ("n_images", u32),
    ("n_sounds", u32), ("pillow", C.c_int32), ("seed", C.c_uint64))
accel_chunk = _struct("accel_chunk", ("text", text), ("start", f64), ("end", f64))
accel_detection = _struct(
    "accel_detection", ("score", f64), ("id", i64), ("label", text), ("xmin", C.c_float), ("ymin", C.c_float), ("xmax", C.c_float), ("ymax", C.c_float))
accel_detect_params = _struct("accel_detect_params", ("size", u32), ("threshold", f64))
accel_detections = _struct(
    "accel_detections", ("n", u32), ("count", C.POINTER(u32)), ("object", C.POINTER(C.POINTER(accel_detection))), ("height", C.POINTER(C.c_int32)), ("width", C.POINTER(C.c_int32)))

accel_generated_image = _struct("accel_generated_image", ("width", u32), ("height", u32), ("rgb", C.POINTER(C.c_uint8)), ("prompt", u32), ("seed", u64),
                                ("flagged", i32), ("reserved", u32), ("parameters", text))
accel_generated_images = _struct("accel_generated_images", ("n", u32), ("image", C.POINTER(accel_generated_image)), ("scheduler", text), ("steps", u32))
ImageStepFunction = C.CFUNCTYPE(C.c_int, C.c_void_p, u32, u32, C.POINTER(C.c_float), u64)
accel_text_to_image_params = _struct(
    "accel_text_to_image_params", ("size", u32), ("steps", u32), ("width", u32), ("height", u32), ("images_per_prompt", u32), ("clip_skip", u32), ("guidance_scale", f64),
    ("guidance_rescale", f64), ("eta", f64), ("seed", u64), ("seeds", C.POINTER(u64)), ("n_seeds", u32), ("image", C.POINTER(accel_media)), ("strength", f64), ("negative_prompt", text), ("scheduler", text),
    ("on_step", ImageStepFunction), ("user", C.c_void_p), ("max_sequence_length", u32), ("mask_image", C.POINTER(accel_media)), ("vae_tiling", u32),
    ("skip_guidance_layers", C.POINTER(u32)), ("n_skip_guidance_layers", u32), ("reserved", u32), ("skip_layer_guidance_scale", f64), ("skip_layer_guidance_start", f64),
    ("skip_layer_guidance_stop", f64), ("true_cfg_scale", f64))
accel_series = _struct("accel_series", ("values", C.POINTER(C.c_float)), ("n", u64))
accel_forecast_params = _struct(
    "accel_forecast_params", ("size", u32), ("horizon", u32), ("quantiles", C.POINTER(f64)), ("n_quantiles", u32), ("samples", u32), ("seed", u64),
    ("temperature", f64), ("top_p", f64), ("top_k", i64), ("frequency", u32))
accel_forecast = _struct("accel_forecast", ("mean", C.POINTER(C.c_float)), ("quantiles", C.POINTER(C.c_float)), ("samples", C.POINTER(C.c_float)))
accel_forecasts = _struct(
    "accel_forecasts", ("n", u32), ("horizon", u32), ("n_quantiles", u32), ("n_samples", u32), ("levels", C.POINTER(f64)), ("item", C.POINTER(accel_forecast)))
accel_text_to_speech_params = _struct(
    "accel_text_to_speech_params", ("size", u32), ("phonemes", u32), ("seed", u64), ("speaker", i32), ("speaking_rate", f64), ("noise_scale", f64),
    ("noise_scale_duration", f64), ("max_seconds", f64))
accel_waveform = _struct("accel_waveform", ("samples", C.POINTER(C.c_float)), ("n", u64))
accel_waveforms = _struct("accel_waveforms", ("n", u32), ("rate", u32), ("item", C.POINTER(accel_waveform)))
accel_segment = _struct("accel_segment", ("id", i64), ("label_id", i64), ("label", text), ("score", f64), ("pixels", u64), ("area", f64))
accel_segment_params = _struct(
    "accel_segment_params", ("size", u32), ("subtask", text), ("threshold", f64), ("mask_threshold", f64), ("overlap_threshold", f64))
accel_segmentations = _struct(
    "accel_segmentations", ("n", u32), ("count", C.POINTER(u32)), ("segment", C.POINTER(C.POINTER(accel_segment))), ("height", C.POINTER(i32)),
    ("width", C.POINTER(i32)), ("map", C.POINTER(C.POINTER(i32))))

accel_token_entity = _struct(
    "accel_token_entity", ("entity", text), ("score", f64), ("word", text), ("index", i64), ("start", i64), ("end", i64))
accel_classify_tokens_params = _struct("accel_classify_tokens_params", ("size", u32), ("aggregation", text), ("ignore_labels", C.POINTER(accel_strings)), ("stride", u32))
accel_token_entities = _struct("accel_token_entities", ("n", u32), ("count", C.POINTER(u32)), ("entity", C.POINTER(C.POINTER(accel_token_entity))))

accel_qa_params = _struct(
    "accel_qa_params", ("size", u32), ("top_k", u32), ("doc_stride", u32), ("max_answer_len", u32), ("max_seq_len", u32),
    ("max_question_len", u32), ("handle_impossible_answer", u32), ("align_to_words", u32))
accel_answer = _struct("accel_answer", ("score", f64), ("start", i64), ("end", i64), ("answer", text))
accel_answers = _struct("accel_answers", ("n", u32), ("count", C.POINTER(u32)), ("answer", C.POINTER(C.POINTER(accel_answer))))

accel_template_params = _struct(
    "accel_template_params", ("size", u32), ("name", text), ("tools", text), ("documents", text), ("variables", text), ("add_generation_prompt", C.c_int32),
    ("continue_final_message", C.c_int32))
accel_rerank_params = _struct("accel_rerank_params", ("size", u32), ("top_k", u32), ("function", text), ("instruction", text), ("adapter", C.c_void_p),
                              ("adapter_scale", f64))
accel_ranked = _struct("accel_ranked", ("document", u32), ("score", f64))
accel_ranking = _struct("accel_ranking", ("n", u32), ("item", C.POINTER(accel_ranked)), ("truncated", u32), ("tokens", u64))
accel_chat_params = _struct(
    "accel_chat_params", ("size", u32), ("system", text), ("messages", text), ("template_name", text), ("tools", text), ("documents", text),
    ("variables", text))
accel_fill_params = _struct("accel_fill_params", ("size", u32), ("top_k", u32), ("targets", C.POINTER(accel_strings)), ("truncation", text), ("max_length", u32))
accel_fill = _struct("accel_fill", ("score", f64), ("token", i64), ("token_str", text), ("sequence", text))
accel_fills = _struct("accel_fills", ("n", u32), ("text", C.POINTER(u32)), ("count", C.POINTER(u32)), ("fill", C.POINTER(C.POINTER(accel_fill))))

accel_token_logprob = _struct("accel_token_logprob", ("id", i32), ("logprob", C.c_float))
accel_token_event = _struct(
    "accel_token_event", ("size", u32), ("prompt", u32), ("sequence", u32), ("id", i32), ("text", text), ("logprob", C.c_float), ("finish", text),
    ("alternative", C.POINTER(accel_token_logprob)), ("alternatives", u32))
TokenFunction = C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(accel_token_event))
accel_tools_params = _struct(
    "accel_tools_params", ("size", u32), ("required", u32), ("name", text), ("single", u32), ("family", text), ("schema", text))
accel_tool_event = _struct("accel_tool_event", ("size", u32), ("kind", C.c_int), ("call", u32), ("text", text))
ToolFunction = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(accel_tool_event))
accel_generate_params = _struct(
    "accel_generate_params", ("size", u32), ("max_new_tokens", i32), ("min_new_tokens", i32), ("do_sample", i32), ("temperature", f64), ("top_p", f64),
    ("min_p", f64), ("typical_p", f64), ("top_k", i32), ("repetition_penalty", f64), ("presence_penalty", f64), ("frequency_penalty", f64),
    ("no_repeat_ngram_size", i32), ("num_beams", u32), ("num_return_sequences", u32), ("seed", u64), ("stop", C.POINTER(accel_strings)), ("config", text),
    ("logprobs", i32), ("ignore_eos", u32), ("keep_stop", u32), ("keep_special_tokens", u32), ("no_special_tokens", u32), ("on_token", TokenFunction),
    ("on_token_user", C.c_void_p), ("continue_on_error", u32), ("grammar", text), ("grammar_kind", u32), ("prompt_lookup_num_tokens", u32),
    ("max_matching_ngram_size", u32), ("assistant_model", C.c_void_p), ("num_assistant_tokens", u32), ("reserved_adapter", u32),
    ("adapter", C.c_void_p), ("adapter_scale", f64))
accel_depths = _struct(
    "accel_depths", ("n", u32), ("height", C.POINTER(i32)), ("width", C.POINTER(i32)), ("depth", C.POINTER(C.POINTER(C.c_float))), ("least", C.POINTER(C.c_float)),
    ("most", C.POINTER(C.c_float)))
accel_document_question = _struct(
    "accel_document_question", ("question", text), ("image", C.POINTER(accel_media)), ("words", C.POINTER(text)), ("boxes", C.POINTER(i32)), ("n_words", u32))
accel_document_params = _struct(
    "accel_document_params", ("size", u32), ("top_k", u32), ("max_answer_len", u32), ("max_seq_len", u32), ("doc_stride", u32), ("handle_impossible_answer", i32),
    ("look", i32), ("generate", C.POINTER(accel_generate_params)))
accel_document_answer = _struct("accel_document_answer", ("score", f64), ("start", i64), ("end", i64), ("answer", text))
accel_document_answers = _struct(
    "accel_document_answers", ("n", u32), ("count", C.POINTER(u32)), ("answer", C.POINTER(C.POINTER(accel_document_answer))))
accel_speech_segment = _struct(
    "accel_speech_segment", ("start", f64), ("end", f64), ("text", text), ("n", u32), ("ids", C.POINTER(i32)), ("temperature", f64), ("logprob", f64),
    ("compression_ratio", f64), ("no_speech", f64), ("n_words", u32), ("words", C.POINTER(accel_chunk)))
SegmentFunction = C.CFUNCTYPE(C.c_int, C.c_void_p, u32, u32, C.POINTER(accel_speech_segment))
accel_transcribe_params = _struct(
    "accel_transcribe_params", ("size", u32), ("timestamps", text), ("chunk_length", f64), ("stride_left", f64), ("stride_right", f64), ("language", text),
    ("task", text), ("prompt", text), ("prompt_all_segments", i32), ("condition_on_previous", i32), ("temperature", C.POINTER(f64)), ("n_temperature", u32),
    ("compression_ratio_threshold", f64), ("logprob_threshold", f64), ("no_speech_threshold", f64), ("generate", C.POINTER(accel_generate_params)), ("max_seconds", f64), ("on_segment", SegmentFunction),
    ("on_segment_user", C.c_void_p))
accel_transcripts = _struct(
    "accel_transcripts", ("n", u32), ("text", C.POINTER(text)), ("count", C.POINTER(u32)), ("chunk", C.POINTER(C.POINTER(accel_chunk))),
    ("language", C.POINTER(text)), ("segments", C.POINTER(u32)), ("segment", C.POINTER(C.POINTER(accel_speech_segment))), ("n_ids", C.POINTER(u32)),
    ("ids", C.POINTER(C.POINTER(i32))), ("seconds", C.POINTER(f64)))
accel_image_prompt = _struct("accel_image_prompt", ("kind", C.c_int), ("text", text), ("images", C.POINTER(accel_media)), ("n_images", u32))
accel_generation = _struct(
    "accel_generation", ("prompt", u32), ("sequence", u32), ("text", text), ("n", u32), ("ids", C.POINTER(i32)), ("finish", text), ("score", f64),
    ("logprob", C.POINTER(C.c_float)), ("alternatives", u32), ("alternative", C.POINTER(accel_token_logprob)), ("prompt_tokens", u32),
    ("first_ms", f64), ("token_ms", C.POINTER(f64)), ("status", C.c_int), ("error", text),
    ("cached_tokens", u32), ("draft_tokens", u32), ("accepted_tokens", u32))
accel_generations = _struct(
    "accel_generations", ("n", u32), ("item", C.POINTER(accel_generation)), ("prompt_tokens", u64), ("new_tokens", u64), ("prefill_ms", f64),
    ("decode_ms", f64), ("steps", u32))
accel_region = _struct(
    "accel_region", ("kind", C.c_int), ("label", text), ("n", u32), ("count", C.POINTER(u32)), ("outline", C.POINTER(C.POINTER(i32))))
accel_region_answer = _struct(
    "accel_region_answer", ("text", text), ("n", u32), ("region", C.POINTER(accel_region)), ("height", i32), ("width", i32), ("prompt", u32))
accel_region_answers = _struct("accel_region_answers", ("n", u32), ("item", C.POINTER(accel_region_answer)))
accel_rag_params = _struct(
    "accel_rag_params", ("size", u32), ("create", u32), ("chunk_tokens", u32), ("overlap", u32), ("document_prompt", text), ("query_prompt", text))
accel_rag_info = _struct(
    "accel_rag_info", ("embedder", text), ("dim", u32), ("chunk_tokens", u32), ("overlap", u32), ("reserved", u32), ("document_prompt", text),
    ("query_prompt", text), ("passages", u64), ("documents", C.POINTER(accel_strings)))
accel_rag_problem = _struct("accel_rag_problem", ("path", text), ("message", text), ("status", C.c_int))
accel_rag_changes = _struct(
    "accel_rag_changes", ("added", u32), ("changed", u32), ("unchanged", u32), ("removed", u32), ("skipped", u32), ("n_problem", u32),
    ("problem", C.POINTER(accel_rag_problem)), ("passages", u64), ("tokens", u64))
accel_rag_search_params = _struct(
    "accel_rag_search_params", ("size", u32), ("top_k", u32), ("mode", u32), ("candidates", u32), ("reranker", C.c_void_p), ("path_pattern", text))
accel_rag_passage = _struct(
    "accel_rag_passage", ("path", text), ("title", text), ("heading", text), ("text", text), ("first_line", u32), ("last_line", u32), ("score", f64),
    ("similarity", f64), ("vector_rank", u32), ("words_rank", u32))
accel_rag_passages = _struct(
    "accel_rag_passages", ("n", u32), ("item", C.POINTER(accel_rag_passage)), ("embed_ms", f64), ("search_ms", f64), ("rerank_ms", f64))
accel_rag_answer = _struct(
    "accel_rag_answer", ("text", text), ("finish", text), ("sources", C.POINTER(accel_rag_passages)), ("n_cited", u32), ("n_left_out", u32),
    ("cited", C.POINTER(u32)), ("prompt_tokens", u64), ("new_tokens", u64), ("prefill_ms", f64), ("decode_ms", f64))
accel_request = _struct(
    "accel_request", ("size", u32), ("kind", C.c_int), ("priority", i32), ("deadline_ms", u32), ("done", C.CFUNCTYPE(None, C.c_void_p)), ("user", C.c_void_p),
    ("inputs", C.POINTER(accel_tensors)), ("texts", C.POINTER(C.c_char_p)), ("pairs", C.POINTER(C.c_char_p)), ("n", u32), ("query", text),
    ("prompt", text), ("ids", C.POINTER(i32)), ("embed", C.POINTER(accel_embed_params)), ("classify", C.POINTER(accel_classify_params)),
    ("rerank", C.POINTER(accel_rerank_params)), ("generate", C.POINTER(accel_generate_params)), ("image_prompt", C.POINTER(accel_image_prompt)))
accel_queue_stats = _struct(
    "accel_queue_stats", ("size", u32), ("waiting", u32), ("prompt_tokens", u64), ("cached_tokens", u64), ("cache_hits", u64), ("cache_prompts", u64),
    ("cache_bytes", u64), ("draft_tokens", u64), ("accepted_tokens", u64), ("no_cache", text))
accel_text2text_params = _struct(
    "accel_text2text_params", ("size", u32), ("task", text), ("source", text), ("target", text), ("truncate", u32),
    ("generate", C.POINTER(accel_generate_params)))

accel_token_ids = _struct(
    "accel_token_ids", ("n", u32), ("count", C.POINTER(u32)), ("ids", C.POINTER(C.POINTER(i32))), ("tokens", C.POINTER(C.POINTER(text))),
    ("start", C.POINTER(C.POINTER(i64))), ("end", C.POINTER(C.POINTER(i64))))

accel_profile_step = _struct(
    "accel_profile_step", ("size", u32), ("index", u32), ("node", text), ("op", text), ("entry", text), ("stage", u32), ("node_count", u32),
    ("begin_us", f64), ("end_us", f64), ("flop", f64), ("bytes", f64), ("device_clock", i32), ("reserved", i32), ("limit_us", f64),
    ("weight_bytes", f64), ("result_bytes", f64))
ProfileFunction = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(accel_profile_step))

accel_plan_params = _struct(
    "accel_plan_params", ("size", u32), ("batch", u32), ("device", text), ("precision", text), ("architecture", text), ("entry", text),
    ("output", text), ("seq", u32), ("side", u32), ("past", u32), ("encoded", u32), ("width", u32), ("height", u32), ("vae_tiling", u32),
    ("reserved", u32))

accel_fit_params = _struct(
    "accel_fit_params", ("size", u32), ("device", text), ("precision", text), ("batch", u32), ("seq", u32), ("architecture", text), ("task", text),
    ("new_tokens", u32), ("reserved", u32), ("times", u64), ("width", u32), ("height", u32), ("steps", u32), ("vae_tiling", u32))
accel_fit_run = _struct("accel_fit_run", ("entry", text), ("output", text), ("times", u64), ("scratch", u64), ("seconds", f64))
accel_fit_part = _struct(
    "accel_fit_part", ("device", text), ("first_layer", u32), ("last_layer", u32), ("fits", i32), ("streams", i32), ("weights", u64), ("total", u64),
    ("available", u64))
accel_fit_record = _struct(
    "accel_fit_record", ("device", text), ("precision", text), ("fits", i32), ("reason", text), ("advice", text), ("weights", u64),
    ("weights_in_file", u64), ("state_per_token", u64), ("state", u64), ("scratch", u64), ("total", u64), ("peak", u64), ("memory", u64),
    ("available", u64), ("tokenizer", u64), ("resident", u64), ("streams", i32), ("reserved", i32),
    ("stream_least", u64), ("stream_resident", u64), ("stream_staging", u64), ("stream_read", u64),
    ("part", C.POINTER(accel_fit_part)), ("n_part", u32), ("reserved_parts", u32), ("at_once", u64),
    ("disk_bytes_per_second", f64), ("compute_seconds", f64), ("seconds_per_token", f64), ("seconds_to_first", f64),
    ("stream_host", u64), ("copy_bytes_per_second", f64), ("stream_disk", u64),
    ("run", C.POINTER(accel_fit_run)), ("n_run", u32), ("reserved_runs", u32))
accel_fit_report = _struct(
    "accel_fit_report", ("model", text), ("architecture", text), ("batch", u32), ("seq", u32), ("parameters", u64), ("n", u32),
    ("record", C.POINTER(accel_fit_record)), ("unit", text), ("process", u64), ("height", u32), ("steps", u32))

accel_cache_entry = _struct("accel_cache_entry", ("file", text), ("label", text), ("bytes", u64), ("used", i64))
accel_cache_list = _struct(
    "accel_cache_list", ("directory", text), ("bytes", u64), ("limit", u64), ("n", u32), ("entry", C.POINTER(accel_cache_entry)))

accel_verify_output = _struct(
    "accel_verify_output", ("name", text), ("max_abs", f64), ("max_rel", f64), ("cosine", f64), ("bound", f64), ("compared", u64),
    ("passed", i32), ("note", text))
accel_verify_report = _struct(
    "accel_verify_report", ("passed", i32), ("architecture", text), ("device", text), ("precision", text), ("golden", text), ("n", u32),
    ("output", C.POINTER(accel_verify_output)), ("got", C.POINTER(accel_tensors)))
