#!/usr/bin/env python3
"""Makes the fixtures of models that paint: tiny random components and pipelines of diffusers, and what diffusers computes with them.

    python3 tests/goldens/make_diffusion_goldens.py [name prefix ...]      only the fixtures named so; needs diffusers and Pillow beside requirements.txt

models/NAME, goldens_diffusion.list    components (UNet2DConditionModel, UNet2DModel, AutoencoderKL), as tiny_models.py writes the others
diffusion/randn.safetensors            torch.randn of CPU generators: SEED.N
diffusion/schedulers/NAME.safetensors  scheduler_config.json as metadata; timesteps, sigmas, and the samples after each of some steps with given model outputs
diffusion/pipelines/NAME/              a pipeline's directory; golden.CASE.safetensors holds pixels [n,height,width,3], arguments as metadata
"""
import copy
import json
import pathlib
import re
import shutil
import sys

import diffusers as D
import numpy as np
import peft
import tiny_models
import torch
import transformers
from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker, cosine_distance
from PIL import Image
from safetensors.torch import save_file
from tiny_models import randomise, seed

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
MODELS, DIFFUSION = FIXTURES / "models", FIXTURES / "diffusion"


# ---- components ----

UNET = dict(sample_size=8, in_channels=4, out_channels=4, block_out_channels=(8, 16), layers_per_block=1, cross_attention_dim=12, attention_head_dim=2, norm_num_groups=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))


def latents(name, *shape, text=None, time=None, **more):
    seed(name)
    inputs = {"sample": torch.randn(*shape), "timestep": torch.tensor(time or [981.0, 1.0, 500.0][:shape[0]])}
    if text:
        inputs["encoder_hidden_states"] = torch.randn(shape[0], *text)
    return {**inputs, **{k: (torch.randn(*v) if isinstance(v, tuple) else v) for k, v in more.items()}}


def unets():
    both = [("batch", latents("a", 3, 4, 8, 8, text=(7, 12))), ("odd", latents("b", 2, 4, 9, 13, text=(5, 12)))]
    yield "unet", D.UNet2DConditionModel, UNET, both
    heads = {**UNET, "block_out_channels": (8, 16, 16), "attention_head_dim": (2, 4, 8), "use_linear_projection": True, "layers_per_block": (1, 2, 1), "norm_eps": 1e-6,
             "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
             "transformer_layers_per_block": (1, 2, 1), "flip_sin_to_cos": False, "freq_shift": 1, "resnet_time_scale_shift": "scale_shift", "mid_block_scale_factor": 1.4}
    yield "unet_heads", D.UNet2DConditionModel, heads, [("odd", latents("c", 2, 4, 11, 6, text=(3, 12)))]
    sdxl = {**UNET, "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "addition_embed_type": "text_time",
            "addition_time_embed_dim": 6, "projection_class_embeddings_input_dim": 46, "transformer_layers_per_block": (1, 2)}
    sizes = torch.tensor([[512.0, 384.0, 0.0, 8.0, 512.0, 512.0], [64.0, 64.0, 0.0, 0.0, 96.0, 32.0]])
    yield "unet_sdxl", D.UNet2DConditionModel, sdxl, [("batch", latents("d", 2, 4, 8, 8, text=(7, 12), text_embeds=(2, 10), time_ids=sizes))]
    yield "unet_lcm", D.UNet2DConditionModel, {**UNET, "time_cond_proj_dim": 10}, [("batch", latents("e", 2, 4, 8, 8, text=(7, 12), timestep_cond=(2, 10)))]
    more = {**UNET, "in_channels": 9, "class_embed_type": "projection", "projection_class_embeddings_input_dim": 11, "class_embeddings_concat": True, "act_fn": "gelu",
            "center_input_sample": True, "conv_in_kernel": 1, "conv_out_kernel": 5, "time_embedding_dim": 24, "timestep_post_act": "silu", "encoder_hid_dim": 15,
            "encoder_hid_dim_type": "text_proj", "only_cross_attention": (True, False), "time_embedding_act_fn": "silu", "mid_block_type": "UNetMidBlock2D"}
    yield "unet_more", D.UNet2DConditionModel, more, [("batch", latents("f", 2, 9, 8, 8, text=(7, 15), class_labels=(2, 11)))]
    plain = {**UNET, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "num_class_embeds": 5, "downsample_padding": 0,
             "attention_head_dim": 4}
    yield "unet_attends", D.UNet2DConditionModel, plain, [("batch", latents("g", 2, 4, 8, 8, text=(7, 12), class_labels=torch.tensor([4, 0])))]
    yield "unet_timestep_class", D.UNet2DConditionModel, {**UNET, "class_embed_type": "timestep", "mid_block_type": None}, [
        ("batch", latents("h", 2, 4, 8, 8, text=(7, 12), class_labels=torch.tensor([4.0, 31.0])))]
    ddpm = dict(sample_size=8, in_channels=3, out_channels=3, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4,
                down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    yield "unet2d", D.UNet2DModel, ddpm, [("batch", latents("i", 2, 3, 8, 8)), ("wide", latents("j", 1, 3, 6, 10))]
    yield "unet2d_more", D.UNet2DModel, {**ddpm, "attention_head_dim": None, "num_class_embeds": 4, "add_attention": False, "flip_sin_to_cos": False, "freq_shift": 1,
                                         "resnet_time_scale_shift": "scale_shift", "center_input_sample": True, "mid_block_scale_factor": 1.3}, [
        ("batch", latents("k", 2, 3, 8, 8, class_labels=torch.tensor([3, 1])))]
    yield "unet2d_timestep_class", D.UNet2DModel, {**ddpm, "class_embed_type": "timestep", "act_fn": "gelu", "layers_per_block": 2}, [
        ("batch", latents("l", 2, 3, 8, 8, class_labels=torch.tensor([3.0, 17.0])))]


VAE = dict(in_channels=3, out_channels=3, block_out_channels=(8, 16), layers_per_block=1, latent_channels=4, norm_num_groups=4, sample_size=16,
           down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)


def pixels(name, *shape):
    seed(name)
    return {"sample": torch.rand(*shape) * 2 - 1}


def autoencoders():
    yield "vae", D.AutoencoderKL, VAE, [("batch", pixels("a", 2, 3, 16, 16)), ("wide", pixels("b", 1, 3, 12, 20))]
    yield "vae_plain", D.AutoencoderKL, {**VAE, "use_quant_conv": False, "use_post_quant_conv": False, "mid_block_add_attention": False, "latent_channels": 16, "layers_per_block": 2,
                                         "act_fn": "relu"}, [("batch", pixels("c", 2, 3, 16, 16))]


SD3 = dict(sample_size=8, patch_size=2, in_channels=4, out_channels=4, num_layers=3, attention_head_dim=6, num_attention_heads=2, joint_attention_dim=20, caption_projection_dim=12,
           pooled_projection_dim=18, pos_embed_max_size=12)
FLUX = dict(in_channels=16, num_layers=1, num_single_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=10, pooled_projection_dim=12, axes_dims_rope=(2, 2, 4))


def streams(name, latents, text, pooled, time, side=None, **more):
    """What the transformers of SD 3 and Flux are given; side: height and width of Flux's rows."""
    seed(name)
    n = latents[0]
    inputs = {"hidden_states": torch.randn(*latents), "encoder_hidden_states": torch.randn(n, *text), "pooled_projections": torch.randn(n, pooled), "timestep": torch.tensor(time)}
    if side:
        grid = torch.stack(torch.meshgrid(torch.arange(side[0]), torch.arange(side[1]), indexing="ij"), -1).reshape(-1, 2)
        inputs["img_ids"] = torch.cat([torch.zeros(len(grid), 1), grid], 1).float()
        inputs["txt_ids"] = torch.zeros(text[0], 3)
    return {**inputs, **more}


def calm_embedders(model):
    """randomise() takes what is called "embed" for a table of rows; here these are linear layers, whose weights are as large as those of others."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embed" in name and p.dim() == 2:
                p.div_(0.35 * p.shape[1] ** 0.5)


def transformers_of_two_streams():
    yield "sd3", D.SD3Transformer2DModel, SD3, [("batch", streams("a", (3, 4, 8, 8), (7, 20), 18, [981.0, 1.0, 500.0])), ("odd", streams("b", (2, 4, 10, 19), (1, 20), 18, [3.5, 700.0])),
                                                ("largest", streams("c", (1, 4, 24, 24), (5, 20), 18, [12.0]))]
    yield "sd3_dual", D.SD3Transformer2DModel, {**SD3, "qk_norm": "rms_norm", "dual_attention_layers": (0, 2), "num_layers": 4, "out_channels": None}, [
        ("batch", streams("d", (2, 4, 6, 10), (7, 20), 18, [981.0, 1.0]))]
    yield "sd3_layer_norm", D.SD3Transformer2DModel, {**SD3, "qk_norm": "layer_norm", "dual_attention_layers": [1], "num_layers": 2, "patch_size": 1, "out_channels": 3}, [
        ("batch", streams("e", (2, 4, 5, 3), (7, 20), 18, [981.0, 1.0]))]
    yield "flux", D.FluxTransformer2DModel, FLUX, [("batch", streams("f", (3, 12, 16), (7, 10), 12, [0.981, 0.001, 0.5], side=(4, 3))),
                                                   ("odd", streams("g", (1, 35, 16), (1, 10), 12, [1.0], side=(7, 5)))]
    moved = streams("h", (2, 12, 16), (5, 10), 12, [0.7, 0.2], side=(3, 4), guidance=torch.tensor([3.5, 1.0]))
    moved["img_ids"] += torch.tensor([1.0, 0.5, 20.0])
    moved["txt_ids"] += torch.arange(5)[:, None] * torch.tensor([0.0, 1.0, 2.0])
    yield "flux_guidance", D.FluxTransformer2DModel, {**FLUX, "guidance_embeds": True, "patch_size": 2, "out_channels": 3, "num_layers": 2, "axes_dims_rope": (4, 2, 2)}, [("moved", moved)]
TINY = dict(encoder_block_out_channels=(6, 6), decoder_block_out_channels=(6, 6), num_encoder_blocks=(1, 2), num_decoder_blocks=(2, 1))


def tiny_autoencoders():
    yield "vae_tiny", D.AutoencoderTiny, TINY, [("batch", pixels("d", 2, 3, 16, 16)), ("odd", pixels("e", 1, 3, 11, 14))]
    yield "vae_tiny_more", D.AutoencoderTiny, {**TINY, "act_fn": "mish", "latent_channels": 5, "in_channels": 2, "out_channels": 4, "upsampling_scaling_factor": 3, "latent_magnitude": 2,
                                               "latent_shift": 0.25, "decoder_block_out_channels": (4, 4, 4), "num_decoder_blocks": (0, 1, 2)}, [("batch", pixels("f", 2, 2, 8, 12))]


CHECKER = {"projection_dim": 6, "vision_config": dict(hidden_size=12, intermediate_size=17, num_hidden_layers=2, num_attention_heads=2, image_size=12, patch_size=4, projection_dim=5),
           "text_config": dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=9)}


def checker_of(name, **more):
    """StableDiffusionSafetyChecker, whose thresholds are some of the cosines that pictures of noise have."""
    model = StableDiffusionSafetyChecker(transformers.CLIPConfig(**{**CHECKER, **more})).eval()
    seed(name)
    randomise(model)
    with torch.no_grad():
        for parameter, scale in ((model.concept_embeds, 1), (model.special_care_embeds, 1), (model.concept_embeds_weights, 0.3), (model.special_care_embeds_weights, 0.3)):
            parameter.copy_(torch.randn(parameter.shape) * scale)
    return model


def safety_checkers():
    seed("pictures")
    both = [("batch", {"pixel_values": torch.randn(3, 3, 12, 12)})]
    yield "safety_checker", checker_of("checker"), both
    old = {"vision_config_dict": {**CHECKER["vision_config"], "hidden_act": "gelu"}, "projection_dim": 8}
    yield "safety_checker_old", checker_of("old", **old), [("one", {"pixel_values": torch.randn(1, 3, 12, 12)})]


def write_checker(directory, model, old_names=False):
    """old_names: those that transformers gave the tower before 5.0, which checkers on the hub have, and the config's older form."""
    model.save_pretrained(directory)
    if old_names:
        config = json.loads((directory / "config.json").read_text())
        config["vision_config_dict"] = config.pop("vision_config")
        (directory / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
        tensors = {re.sub(r"^vision_model\.(vision_model\.)?", "vision_model.vision_model.", k): v.contiguous() for k, v in model.state_dict().items()}
        tensors["vision_model.vision_model.embeddings.position_ids"] = torch.arange(10)[None]
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def config_of(model):
    config = {k: v for k, v in json.loads(model.to_json_string()).items() if k not in ("_diffusers_version", "_name_or_path")}
    return json.dumps(config, indent=1, sort_keys=True) + "\n"


def write_component(directory, model, dtype=None, old_names=False):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(config_of(model))
    tensors = {k: v.clone().contiguous().to(dtype or v.dtype) for k, v in model.state_dict().items()}
    if old_names:
        for new, old in (("to_q", "query"), ("to_k", "key"), ("to_v", "value"), ("to_out.0", "proj_attn")):
            tensors = {k.replace(f"attentions.0.{new}.", f"attentions.0.{old}."): v for k, v in tensors.items()}
    save_file(tensors, directory / "diffusion_pytorch_model.safetensors", metadata={"format": "pt"})


def answer(model, inputs):
    with torch.no_grad():
        if isinstance(model, D.AutoencoderKL):
            return {"sample": model(**inputs).sample, "latent_dist.parameters": model.encode(inputs["sample"]).latent_dist.parameters}
        if isinstance(model, StableDiffusionSafetyChecker):
            x = model.visual_projection(model.vision_model(inputs["pixel_values"])[1])
            return {"special_scores": cosine_distance(x, model.special_care_embeds) - model.special_care_embeds_weights,
                    "concept_scores": cosine_distance(x, model.concept_embeds) - model.concept_embeds_weights}
        if isinstance(model, D.AutoencoderTiny):
            return {"sample": model(**inputs).sample, "latents": model.encode(inputs["sample"]).latents}
        added = {k: v for k, v in inputs.items() if k in ("text_embeds", "time_ids")}
        rest = {k: v for k, v in inputs.items() if k not in added}
        if added:
            rest["added_cond_kwargs"] = added
        return {"sample": model(**rest).sample}


def components(wanted):
    path = MODELS / "goldens_diffusion.list"
    lines = [l for l in (path.read_text().splitlines() if path.exists() else []) if wanted and not any(l.startswith(w) for w in wanted)]
    for name, cls, config, cases in [*unets(), *autoencoders(), *tiny_autoencoders(), *transformers_of_two_streams(), *((n, type(m), m, c) for n, m, c in safety_checkers())]:
        if wanted and not any(name.startswith(w) for w in wanted):
            continue
        directory = MODELS / name
        shutil.rmtree(directory, ignore_errors=True)
        if cls is StableDiffusionSafetyChecker:
            model = config
        else:
            model = cls(**config).eval()
            randomise(model)
        if cls in (D.SD3Transformer2DModel, D.FluxTransformer2DModel):
            calm_embedders(model)
        if cls is StableDiffusionSafetyChecker:
            write_checker(directory, model, old_names=name.endswith("_old"))
        else:
            write_component(directory, model, old_names=name == "vae")
        for case, inputs in cases:
            out = {f"out.{k}": v.contiguous() for k, v in answer(model, inputs).items()}
            if any(not torch.isfinite(v).all() for v in out.values()):
                raise SystemExit(f"{name} {case}: not finite")
            file = f"golden.{cls.__name__}.{case}.safetensors"
            save_file({**{f"in.{k}": v for k, v in inputs.items()}, **out}, directory / file, metadata={"mode": "forward", "args": "{}"})
            lines.append(f"{name} {file} {cls.__name__}")
        print(name, file=sys.stderr)
    path.write_text("\n".join(sorted(lines)) + "\n")


# ---- random numbers ----

def random_numbers():
    tensors = {}
    for number in (0, 42, 2 ** 31, 2 ** 40 + 5):
        for n in (1, 15, 16, 100, 1000):
            generator = torch.Generator().manual_seed(number)
            tensors[f"{number}.{n}"] = torch.cat([torch.randn(n, generator=generator), torch.randn(3, generator=generator), torch.randn(16, generator=generator)])
    save_file(tensors, DIFFUSION / "randn.safetensors")


# ---- schedulers ----

SD = dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")


def schedulers():
    spacings = ("linspace", "leading", "trailing")
    for spacing in spacings:
        for prediction in ("epsilon", "v_prediction", "sample"):
            yield f"ddim_{spacing}_{prediction}", D.DDIMScheduler, dict(SD, timestep_spacing=spacing, prediction_type=prediction, steps_offset=1, clip_sample=prediction == "sample")
            yield f"euler_{spacing}_{prediction}", D.EulerDiscreteScheduler, dict(SD, timestep_spacing=spacing, prediction_type=prediction)
            yield f"dpm_{spacing}_{prediction}", D.DPMSolverMultistepScheduler, dict(SD, timestep_spacing=spacing, prediction_type=prediction)
            yield f"ddpm_{spacing}_{prediction}", D.DDPMScheduler, dict(SD, timestep_spacing=spacing, prediction_type=prediction)
            yield f"lcm_{spacing}_{prediction}", D.LCMScheduler, dict(timestep_spacing=spacing, prediction_type=prediction)
        yield f"ancestral_{spacing}", D.EulerAncestralDiscreteScheduler, dict(SD, timestep_spacing=spacing)
        yield f"pndm_{spacing}", D.PNDMScheduler, dict(SD, timestep_spacing=spacing, skip_prk_steps=True, steps_offset=1)
    yield "pndm_runge_kutta", D.PNDMScheduler, dict(prediction_type="v_prediction")
    yield "ddim_zero_snr", D.DDIMScheduler, dict(SD, rescale_betas_zero_snr=True, timestep_spacing="trailing", prediction_type="v_prediction", set_alpha_to_one=False)
    yield "ddim_threshold", D.DDIMScheduler, dict(beta_schedule="squaredcos_cap_v2", thresholding=True, sample_max_value=1.5)
    yield "ddim_eta", D.DDIMScheduler, dict(SD, clip_sample=False)
    yield "euler_karras", D.EulerDiscreteScheduler, dict(SD, use_karras_sigmas=True)
    yield "euler_exponential", D.EulerDiscreteScheduler, dict(SD, use_exponential_sigmas=True, sigma_min=0.1, sigma_max=9.0)
    yield "euler_log_linear", D.EulerDiscreteScheduler, dict(SD, interpolation_type="log_linear")
    yield "euler_last", D.EulerDiscreteScheduler, dict(SD, final_sigmas_type="sigma_min", timestep_type="continuous", prediction_type="v_prediction")
    yield "euler_zero_snr", D.EulerDiscreteScheduler, dict(SD, rescale_betas_zero_snr=True, timestep_spacing="trailing", prediction_type="v_prediction")
    for algorithm in ("dpmsolver", "dpmsolver++", "sde-dpmsolver++", "sde-dpmsolver"):
        for order in (1, 2, 3):
            if algorithm == "sde-dpmsolver" and order == 3:
                continue
            for solver in ("midpoint", "heun"):
                last = "zero" if algorithm.endswith("++") else "sigma_min"
                yield f"dpm_{algorithm}_{order}_{solver}", D.DPMSolverMultistepScheduler, dict(SD, algorithm_type=algorithm, solver_order=order, solver_type=solver, final_sigmas_type=last)
    yield "dpm_karras", D.DPMSolverMultistepScheduler, dict(SD, use_karras_sigmas=True, euler_at_final=True)
    yield "dpm_lu", D.DPMSolverMultistepScheduler, dict(SD, use_lu_lambdas=True)
    yield "dpm_exponential", D.DPMSolverMultistepScheduler, dict(beta_schedule="squaredcos_cap_v2", use_exponential_sigmas=True)
    yield "dpm_cosine", D.DPMSolverMultistepScheduler, dict(beta_schedule="squaredcos_cap_v2", lambda_min_clipped=-5.1)
    yield from later_schedulers()
    for variance in ("fixed_small_log", "fixed_large"):
        yield f"ddpm_{variance}", D.DDPMScheduler, dict(variance_type=variance)
    yield "ddpm_sigmoid", D.DDPMScheduler, dict(beta_schedule="sigmoid")


def later_schedulers():
    """Names that end so are run with: eta an eta of 0.6, mu a shift of 0.8, even sigmas given as FluxPipeline gives them."""
    spacings = dict(zip(("linspace", "leading", "trailing"), ("epsilon", "v_prediction", "sample")))
    by_sigma = {"heun": D.HeunDiscreteScheduler, "lms": D.LMSDiscreteScheduler, "kdpm2": D.KDPM2DiscreteScheduler, "kdpm2a": D.KDPM2AncestralDiscreteScheduler}
    by_level = {"unipc": D.UniPCMultistepScheduler, "deis": D.DEISMultistepScheduler}
    single = {"single": D.DPMSolverSinglestepScheduler}
    rules = ("karras", "exponential", "beta")
    for name, cls in {**by_sigma, **by_level}.items():
        for spacing, prediction in spacings.items():
            prediction = "epsilon" if prediction == "sample" and name.startswith("kdpm2") else prediction
            yield f"{name}_{spacing}", cls, dict(SD, timestep_spacing=spacing, prediction_type=prediction, steps_offset=1)
    for name, cls in {**by_sigma, **by_level, **single}.items():
        for rule in rules:
            yield f"{name}_{rule}", cls, dict(SD, **{f"use_{rule}_sigmas": True})
    for rule in ("beta", "flow"):
        yield f"dpm_{rule}", D.DPMSolverMultistepScheduler, dict(SD, **{f"use_{rule}_sigmas": True}, flow_shift=3.0, prediction_type="flow_prediction" if rule == "flow" else "epsilon")
    yield "dpm_flow_mu", D.DPMSolverMultistepScheduler, dict(use_flow_sigmas=True, prediction_type="flow_prediction", use_dynamic_shifting=True)
    yield "euler_beta", D.EulerDiscreteScheduler, dict(SD, use_beta_sigmas=True)
    yield "heun_clip", D.HeunDiscreteScheduler, dict(beta_schedule="exp", clip_sample=True, clip_sample_range=0.9)
    yield "heun_ends", D.HeunDiscreteScheduler, dict(SD, use_karras_sigmas=True, sigma_min=0.1, sigma_max=9.0)  # fields of other classes, asked for nonetheless
    for solver in ("bh1", "bh2"):
        for order in (1, 2, 3):
            yield f"unipc_{solver}_{order}", D.UniPCMultistepScheduler, dict(SD, solver_type=solver, solver_order=order, lower_order_final=order != 3 or solver == "bh2",
                                                                             final_sigmas_type="zero" if solver == "bh2" else "sigma_min")
    yield "unipc_noise", D.UniPCMultistepScheduler, dict(SD, predict_x0=False, final_sigmas_type="sigma_min", prediction_type="v_prediction", solver_order=3)
    yield "unipc_options", D.UniPCMultistepScheduler, dict(SD, disable_corrector=[0, 2], thresholding=True, sample_max_value=1.5, rescale_betas_zero_snr=True, timestep_spacing="trailing")
    flow = dict(use_flow_sigmas=True, prediction_type="flow_prediction")
    yield "unipc_flow", D.UniPCMultistepScheduler, dict(flow, flow_shift=3.0, shift_terminal=0.1, final_sigmas_type="sigma_min")
    yield "unipc_flow_karras", D.UniPCMultistepScheduler, dict(flow, use_karras_sigmas=True, sigma_min=0.03, sigma_max=20.0)
    yield "unipc_flow_mu", D.UniPCMultistepScheduler, dict(flow, use_dynamic_shifting=True)
    yield "unipc_flow_linear_mu", D.UniPCMultistepScheduler, dict(flow, use_dynamic_shifting=True, time_shift_type="linear")
    for order in (1, 3):
        yield f"deis_{order}", D.DEISMultistepScheduler, dict(SD, solver_order=order, thresholding=order == 1, sample_max_value=1.5)
    yield "deis_flow", D.DEISMultistepScheduler, dict(flow, flow_shift=2.0)
    for algorithm in ("dpmsolver", "dpmsolver++", "sde-dpmsolver++"):
        for order in (1, 2, 3):
            for solver in ("midpoint", "heun")[:1 if order == 1 else 2]:
                yield f"single_{algorithm}_{order}_{solver}", D.DPMSolverSinglestepScheduler, dict(
                    SD, algorithm_type=algorithm, solver_order=order, solver_type=solver, final_sigmas_type="zero" if algorithm == "sde-dpmsolver++" else "sigma_min",
                    lower_order_final=algorithm != "dpmsolver", prediction_type="v_prediction" if solver == "heun" else "epsilon")
    yield "single_flow", D.DPMSolverSinglestepScheduler, dict(flow, flow_shift=2.0, lambda_min_clipped=-5.1)
    yield "single_cosine", D.DPMSolverSinglestepScheduler, dict(beta_schedule="squaredcos_cap_v2", lambda_min_clipped=-5.1, thresholding=True, sample_max_value=1.5)
    for prediction in ("epsilon", "v_prediction", "sample"):
        yield f"tcd_{prediction}_eta", D.TCDScheduler, dict(prediction_type=prediction)
    yield "tcd_plain", D.TCDScheduler, dict(rescale_betas_zero_snr=True, original_inference_steps=40, prediction_type="v_prediction")
    yield "fm", D.FlowMatchEulerDiscreteScheduler, dict(shift=3.0)
    yield "fm_terminal", D.FlowMatchEulerDiscreteScheduler, dict(shift=3.0, shift_terminal=0.1, stochastic_sampling=True)
    yield "fm_invert", D.FlowMatchEulerDiscreteScheduler, dict(invert_sigmas=True)
    for rule in rules:
        yield f"fm_{rule}", D.FlowMatchEulerDiscreteScheduler, dict(shift=2.0, **{f"use_{rule}_sigmas": True})
    yield "fm_mu", D.FlowMatchEulerDiscreteScheduler, dict(use_dynamic_shifting=True)
    yield "fm_even", D.FlowMatchEulerDiscreteScheduler, dict(shift=3.0, shift_terminal=0.2)
    yield "fm_mu_even", D.FlowMatchEulerDiscreteScheduler, dict(use_dynamic_shifting=True)
    yield "fm_linear_mu_even", D.FlowMatchEulerDiscreteScheduler, dict(use_dynamic_shifting=True, time_shift_type="linear")


def begin(scheduler, name, steps):
    more = {"mu": 0.8} if "_mu" in name else {}
    if name.endswith("even"):
        return scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), **more)
    return scheduler.set_timesteps(steps, **more)


def one_run(cls, config, steps, name):
    """Timesteps, sigmas, and the sample before and after each step, where the model's output is a fixed function of sample and time."""
    scheduler = cls.from_config(config)
    begin(scheduler, name, steps)
    eta = 0.6 if name.endswith("_eta") else 0
    generator = torch.Generator().manual_seed(7)
    seed("sample")
    sigma = getattr(scheduler, "init_noise_sigma", 1.0)
    sample = torch.randn(2, 4, 2, 2) * sigma
    kept = [sample]
    for t in scheduler.timesteps:
        taken = scheduler.scale_model_input(sample, t) if hasattr(scheduler, "scale_model_input") else sample
        output = torch.sin(taken * 1.3 + 0.001 * float(t)) * 0.9
        more = {"generator": generator} if "generator" in cls.step.__code__.co_varnames else {}
        if eta or cls is D.TCDScheduler:
            more["eta"] = eta
        sample = scheduler.step(output, t, sample, **more).prev_sample
        kept.append(sample)
    found = {"timesteps": scheduler.timesteps.to(torch.float64), "samples": torch.stack(kept).to(torch.float32), "init_sigma": torch.tensor([float(sigma)])}
    if hasattr(scheduler, "sigmas") and scheduler.sigmas is not None:
        found["sigmas"] = scheduler.sigmas.to(torch.float32)
    noise = torch.arange(sample.numel(), dtype=torch.float32).reshape(sample.shape) / sample.numel()
    again = cls.from_config(config)
    begin(again, name, steps)
    middle = len(again.timesteps) // 2
    add = again.add_noise if hasattr(again, "add_noise") else again.scale_noise
    more = (noise, again.timesteps[middle:middle + 1])
    found["noised"] = add(kept[0] / kept[0].std(), *(more if hasattr(again, "add_noise") else more[::-1]))
    found["clean"] = kept[0] / kept[0].std()
    return found


def all_schedulers():
    tensors, names = {}, {}
    later = {name for name, _, _ in later_schedulers()}
    for name, cls, config in schedulers():
        config = dict(cls.from_config(config).config)
        clean = {k: v for k, v in config.items() if k != "_use_default_values"}
        names[name] = {"_class_name": cls.__name__, **clean}
        for steps in (1, 4, 20) if name not in later else (1, 4, 11):
            if (steps < 4 and name == "pndm_runge_kutta") or (steps == 1 and "log_linear" in name):
                continue
            try:
                run = one_run(cls, config, steps, name)
            except (IndexError, ZeroDivisionError) as error:  # diffusers begins at the second of two equal timesteps, and then has one too few
                print("does not run in diffusers:", name, steps, error, file=sys.stderr)
                continue
            if not all(torch.isfinite(v).all() for v in run.values()):
                print("not finite in diffusers:", name, steps, file=sys.stderr)
                continue
            for k, v in run.items():
                tensors[f"{name}.{steps}.{k}"] = v.clone().contiguous()
    save_file(tensors, DIFFUSION / "schedulers.safetensors")
    (DIFFUSION / "schedulers.json").write_text(json.dumps(names, indent=0, sort_keys=True) + "\n")


# ---- pipelines ----

def tokenizer_of(directory):
    """A CLIP tokenizer of single letters."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    vocab = {t: i for i, t in enumerate(["<|startoftext|>", "<|endoftext|>", "!", *letters, *[l + "</w>" for l in letters], ",</w>", "th", "the</w>"])}
    directory.mkdir(parents=True)
    (directory / "vocab.json").write_text(json.dumps(vocab))
    (directory / "merges.txt").write_text("#version: 0.2\nt h\nth e</w>\n")
    tokenizer = transformers.CLIPTokenizer(str(directory / "vocab.json"), str(directory / "merges.txt"), model_max_length=77)
    return tokenizer, vocab


def clip_of(cls, vocab, **more):
    return cls(transformers.CLIPTextConfig(**{**dict(vocab_size=len(vocab), hidden_size=12, intermediate_size=17, num_hidden_layers=3, num_attention_heads=2, bos_token_id=0,
                                                     eos_token_id=1, pad_token_id=1), **more})).eval()


def pipeline_of(scheduler, unet=None, xl=False, **index):
    root = DIFFUSION / "pipelines" / "work"
    shutil.rmtree(root, ignore_errors=True)
    tokenizer, vocab = tokenizer_of(root)
    text = clip_of(transformers.CLIPTextModel, vocab)
    net, vae = D.UNet2DConditionModel(**{**UNET, **(unet or {})}).eval(), D.AutoencoderKL(**{**VAE, **index.pop("vae", {})}).eval()
    for model in (text, net, vae):
        randomise(model)
    if not hasattr(text, "text_model"):  # transformers 5 has no such level any more; diffusers asks for it with clip_skip
        type(text).text_model = property(lambda self: self)
    if xl:
        second = clip_of(transformers.CLIPTextModelWithProjection, vocab, hidden_size=8, num_hidden_layers=2, projection_dim=10, hidden_act="gelu", eos_token_id=2)
        randomise(second)
        other = transformers.CLIPTokenizer(str(root / "vocab.json"), str(root / "merges.txt"), model_max_length=77, pad_token="!")
        pipe = D.StableDiffusionXLPipeline(vae=vae, text_encoder=text, text_encoder_2=second, tokenizer=tokenizer, tokenizer_2=other, unet=net, scheduler=scheduler,
                                           add_watermarker=False, **index)
        pipe.set_progress_bar_config(disable=True)
        shutil.rmtree(root)
        return pipe
    pipe = D.StableDiffusionPipeline(vae=vae, text_encoder=text, tokenizer=tokenizer, unet=net, scheduler=scheduler, safety_checker=None, feature_extractor=None,
                                     requires_safety_checker=False)
    pipe.set_progress_bar_config(disable=True)
    shutil.rmtree(root)
    return pipe


def t5_of(directory, width):
    """T5's encoder and a tokenizer of single letters for it."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0), *[(chr(c), -3.0 - c / 100) for c in range(ord("a"), ord("z") + 1)], ("\u2581the", -1.5), (",", -3.5)]
    tokenizer = transformers.T5Tokenizer(vocab=pieces, extra_ids=0)
    model = transformers.T5EncoderModel(transformers.T5Config(vocab_size=len(pieces), d_model=width, d_kv=4, d_ff=14, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu",
                                                              relative_attention_num_buckets=8, relative_attention_max_distance=16)).eval()
    randomise(model)
    return tokenizer, model


FLOW_VAE = dict(use_quant_conv=False, use_post_quant_conv=False, scaling_factor=1.5305, shift_factor=0.0609)


def flow_pipeline_of(scheduler, flux=False, t5=True, latents=4, **transformer):
    """StableDiffusion3Pipeline, or FluxPipeline."""
    root = DIFFUSION / "pipelines" / "work"
    shutil.rmtree(root, ignore_errors=True)
    tokenizer, vocab = tokenizer_of(root)
    vae = D.AutoencoderKL(**{**VAE, **FLOW_VAE, "block_out_channels": (4, 8), "latent_channels": latents}).eval()
    net = (D.FluxTransformer2DModel(**{**FLUX, **transformer}) if flux else D.SD3Transformer2DModel(**{**SD3, **transformer})).eval()
    text = clip_of(transformers.CLIPTextModel if flux else transformers.CLIPTextModelWithProjection, vocab, projection_dim=10)
    for model in (vae, net, text):
        randomise(model)
    t5_tokenizer, t5_model = t5_of(root, 10 if flux else 20)
    if flux:
        pipe = D.FluxPipeline(scheduler=scheduler, vae=vae, text_encoder=text, tokenizer=tokenizer, text_encoder_2=t5_model, tokenizer_2=t5_tokenizer, transformer=net)
    else:
        second = clip_of(transformers.CLIPTextModelWithProjection, vocab, hidden_size=8, num_hidden_layers=2, projection_dim=8, hidden_act="gelu", eos_token_id=2)
        randomise(second)
        other = transformers.CLIPTokenizer(str(root / "vocab.json"), str(root / "merges.txt"), model_max_length=77, pad_token="!")
        pipe = D.StableDiffusion3Pipeline(transformer=net, scheduler=scheduler, vae=vae, text_encoder=text, tokenizer=tokenizer, text_encoder_2=second, tokenizer_2=other,
                                          text_encoder_3=t5_model if t5 else None, tokenizer_3=t5_tokenizer if t5 else None)
    pipe.set_progress_bar_config(disable=True)
    shutil.rmtree(root)
    return pipe


def pipe_settings(pipe):
    return {"force_zeros_for_empty_prompt": pipe.config.force_zeros_for_empty_prompt, "add_watermarker": False}


SMALL = {"block_out_channels": (4, 8), "norm_num_groups": 2}
XL = {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "addition_embed_type": "text_time",
      "addition_time_embed_dim": 6, "projection_class_embeddings_input_dim": 46, "transformer_layers_per_block": (1, 2), "cross_attention_dim": 20, "sample_size": 8}


DDPM = dict(sample_size=(8, 12), in_channels=3, out_channels=3, block_out_channels=(4, 8), layers_per_block=1, norm_num_groups=2, attention_head_dim=4,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))


def unconditional(wanted):
    """Pipelines without a text: a folder for each part, and all files beside model_index.json, as google/ddpm-* have them."""
    cases = {
        "ddpm": (D.DDPMPipeline, D.DDPMScheduler(num_train_timesteps=20), DDPM, [
            ("all", dict(num_inference_steps=20, seed=3)), ("some", dict(num_images_per_prompt=2, num_inference_steps=5, seeds=[4, 2 ** 40]))]),
        "ddim_flat": (D.DDIMPipeline, D.DDPMScheduler(clip_sample=False), {**DDPM, "in_channels": 1, "out_channels": 1, "sample_size": 8, "time_embedding_type": "learned",
                                                                          "num_train_timesteps": 1000}, [
            ("plain", dict(seed=3)), ("eta", dict(num_images_per_prompt=3, num_inference_steps=4, eta=0.7, seed=9))])}
    for name, (cls, scheduler, config, runs) in cases.items():
        if wanted and not any(("pipeline_" + name).startswith(w) for w in wanted):
            continue
        directory = DIFFUSION / "pipelines" / name
        shutil.rmtree(directory, ignore_errors=True)
        unet = D.UNet2DModel(**config).eval()
        randomise(unet)
        pipe = cls(unet=unet, scheduler=scheduler)
        pipe.set_progress_bar_config(disable=True)
        pipe.save_pretrained(directory, safe_serialization=True)
        if name.endswith("_flat"):
            scheduler.save_pretrained(directory / "scheduler")  # DDIMPipeline makes a DDIMScheduler of any other, and would save that
            for part in ("unet", "scheduler"):
                for file in (directory / part).iterdir():
                    file.rename(directory / file.name)
                (directory / part).rmdir()
        for case, args in runs:
            own = dict(args)
            seeds = own.pop("seeds", None)
            generator = [torch.Generator().manual_seed(s) for s in seeds] if seeds else torch.Generator().manual_seed(own.pop("seed"))
            found = pipe(batch_size=own.pop("num_images_per_prompt", 1), **own, generator=generator, output_type="np").images
            if found.shape[-1] == 1:
                found = np.repeat(found, 3, axis=-1)
            write_pixels(directory, case, found, args)
        print("pipeline", name, file=sys.stderr)


# ---- LoRA ----

def old_name(module):
    """As diffusers named attention's before PEFT."""
    layer, _, last = module.removesuffix(".0").rpartition(".")
    return f"{layer}.processor.{last}_lora"


BLOCK = "attentions.0.transformer_blocks.0."
UNET_MODULES = ["down_blocks.0." + BLOCK + "attn1.to_q", "down_blocks.0." + BLOCK + "attn1.to_out.0", "down_blocks.0." + BLOCK + "attn2.to_k", "down_blocks.0." + BLOCK + "ff.net.0.proj",
                "up_blocks.1." + BLOCK + "ff.net.2", "down_blocks.0.attentions.0.proj_in", "down_blocks.0.resnets.0.conv1", "down_blocks.0.downsamplers.0.conv",
                "down_blocks.1.resnets.0.conv_shortcut", "mid_block.resnets.0.time_emb_proj", "up_blocks.0.upsamplers.0.conv", "mid_block.attentions.0.proj_out"]
ATTENTION = [m for m in UNET_MODULES if ".attn" in m]
XL_MODULES = [m.replace("down_blocks.0." + BLOCK, "down_blocks.1." + BLOCK).replace("up_blocks.1." + BLOCK, "up_blocks.0.attentions.1.transformer_blocks.1.") for m in UNET_MODULES
              if "attentions.0.proj_in" not in m]
ORIGINAL = {  # what the original code, and with it kohya's files for SDXL, call them
    "down_blocks.1." + BLOCK + "attn1.to_q": "input_blocks_3_1_transformer_blocks_0_attn1_to_q", "down_blocks.1." + BLOCK + "attn1.to_out.0": "input_blocks_3_1_transformer_blocks_0_attn1_to_out_0",
    "up_blocks.0.attentions.1.transformer_blocks.1.ff.net.2": "output_blocks_1_1_transformer_blocks_1_ff_net_2", "down_blocks.0.resnets.0.conv1": "input_blocks_1_0_in_layers_2",
    "down_blocks.0.downsamplers.0.conv": "input_blocks_2_0_op", "down_blocks.1.resnets.0.conv_shortcut": "input_blocks_3_0_skip_connection",
    "mid_block.attentions.0.proj_out": "middle_block_1_proj_out", "up_blocks.0.upsamplers.0.conv": "output_blocks_1_2_conv"}
TEXT_MODULES = ["encoder.layers.0.self_attn.q_proj", "encoder.layers.1.self_attn.out_proj", "encoder.layers.2.mlp.fc1"]
LORAS = {  # name: pipeline, naming, modules of the UNet, of the text encoder, of the second, alpha
    "peft": ("euler", "peft", UNET_MODULES, TEXT_MODULES, [], 3.0), "plain": ("euler", "peft", UNET_MODULES[:2], [], [], None),
    "kohya": ("euler", "kohya", UNET_MODULES, TEXT_MODULES, [], 1.5), "old": ("euler", "old", ATTENTION, [], [], None),
    "dora": ("euler", "peft", UNET_MODULES, [], [], 3.0),
    "xl": ("xl", "peft", XL_MODULES, TEXT_MODULES[:1], TEXT_MODULES[:2], 2.0), "xl_original": ("xl", "kohya", list(ORIGINAL), [], [], 2.0), "xl_kohya": ("xl", "kohya", XL_MODULES, TEXT_MODULES, TEXT_MODULES[:2], 2.0)}
RANK = 2


def write_lora(name, pipe):
    """A file of random matrices, in the names of PEFT, of older diffusers, or of kohya's scripts."""
    _, naming, *modules, alpha = LORAS[name]
    path = DIFFUSION / "lora" / f"{name}.safetensors"
    path.parent.mkdir(exist_ok=True)
    seed(name)
    tensors, metadata = {}, {}
    for part, short, names in zip(("unet", "text_encoder", "text_encoder_2"), ("unet", "te" if pipe.config.get("text_encoder_2") is None else "te1", "te2"), modules):
        model = getattr(pipe, part, None)
        for module in names:
            level = "text_model." if part != "unet" and "text_model" in model._modules else ""
            weight = model.get_submodule(level + module).weight
            down, up = torch.randn(RANK, *weight.shape[1:]) * 0.5, torch.randn(weight.shape[0], RANK, *([1] * (weight.dim() - 2))) * 0.5
            whole = module if part == "unet" else "text_model." + module
            if naming == "kohya":
                flat = ORIGINAL[module] if name == "xl_original" and part == "unet" else whole.replace(".", "_")
                base, ends = f"lora_{short}_{flat}", (".lora_down.weight", ".lora_up.weight")
                tensors[base + ".alpha"] = torch.tensor(alpha)
            elif naming == "old":
                base, ends = f"{part}.{old_name(whole)}", (".down.weight", ".up.weight")
            else:
                base, ends = f"{part}.{whole}", (".lora_A.weight", ".lora_B.weight")
            tensors[base + ends[0]], tensors[base + ends[1]] = down, up
            if name == "dora":
                size = weight.detach().flatten(1).norm(dim=1) * (0.5 + torch.rand(weight.shape[0]))
                tensors[base + ".lora_magnitude_vector"] = size.reshape(1, -1, 1, 1) if weight.dim() == 4 else size
        if names and naming == "peft" and alpha:
            metadata |= {f"{part}.r": RANK, f"{part}.lora_alpha": alpha, f"{part}.target_modules": names} | ({f"{part}.use_dora": True} if name == "dora" else {})
    save_file(tensors, path, metadata={"lora_adapter_metadata": json.dumps(metadata)} if metadata else {"format": "pt"})
    return path


OTHERS = {  # name: PEFT's config, of modules of the UNet
    "loha": lambda modules: peft.LoHaConfig(r=2, alpha=3.0, target_modules=modules, init_weights=False),
    "loha_tucker": lambda modules: peft.LoHaConfig(r=2, alpha=3.0, target_modules=modules, init_weights=False, use_effective_conv2d=True),
    "lokr": lambda modules: peft.LoKrConfig(r=1, alpha=1.5, target_modules=modules, init_weights=False, decompose_both=True),
    "lokr_tucker": lambda modules: peft.LoKrConfig(r=1, alpha=1.5, target_modules=modules, init_weights=False, use_effective_conv2d=True),
    "lokr_whole": lambda modules: peft.LoKrConfig(r=4, alpha=4.0, target_modules=modules, init_weights=False)}


def with_other(pipe, name, scale):
    """The pipeline's UNet with LoHa or LoKr beside its layers, which are written as LyCORIS names them."""
    seed(name)
    unet = peft.inject_adapter_in_model(OTHERS[name](UNET_MODULES), copy.deepcopy(pipe.unet), "kind")
    tensors = {}
    for module, layer in unet.named_modules():
        if not isinstance(layer, (peft.tuners.loha.layer.LoHaLayer, peft.tuners.lokr.layer.LoKrLayer)):
            continue
        base = "lora_unet_" + module.replace(".", "_")
        for kind in layer.adapter_layer_names:
            if "kind" in getattr(layer, kind):
                with torch.no_grad():
                    getattr(layer, kind)["kind"].normal_(std=0.7)
                tensors[f"{base}.{kind}"] = getattr(layer, kind)["kind"].detach().clone()
        tensors[base + ".alpha"] = torch.tensor(layer.alpha["kind"])
        layer.scaling["kind"] *= scale
    save_file(tensors, DIFFUSION / "lora" / f"{name}.safetensors")
    return unet


def with_locon(pipe, scale):
    """The same with LoCon as LyCORIS has it for convolutions: three of them behind each other, of which the middle one has the layer's kernel."""
    class Locon(torch.nn.Module):
        def __init__(self, base, alpha):
            super().__init__()
            inner = {"kernel_size": base.kernel_size, "stride": base.stride, "padding": base.padding}
            self.base, self.scaling = base, scale * alpha / RANK
            self.lora_down = torch.nn.Conv2d(base.in_channels, RANK, 1, bias=False)
            self.lora_mid = torch.nn.Conv2d(RANK, RANK, **inner, bias=False)
            self.lora_up = torch.nn.Conv2d(RANK, base.out_channels, 1, bias=False)

        def forward(self, x):
            return self.base(x) + self.scaling * self.lora_up(self.lora_mid(self.lora_down(x)))

    seed("locon")
    unet, tensors = copy.deepcopy(pipe.unet), {}
    for module in UNET_MODULES:
        parent, _, last = module.rpartition(".")
        layer = unet.get_submodule(module)
        if not isinstance(layer, torch.nn.Conv2d):
            continue
        layer = Locon(layer, alpha := 3.0)
        base = "lora_unet_" + module.replace(".", "_")
        for kind in ("lora_down", "lora_mid", "lora_up"):
            with torch.no_grad():
                getattr(layer, kind).weight.normal_(std=0.5)
            tensors[f"{base}.{kind}.weight"] = getattr(layer, kind).weight.detach().clone()
        tensors[base + ".alpha"] = torch.tensor(alpha)
        setattr(unet.get_submodule(parent), last, layer)
    save_file(tensors, DIFFUSION / "lora" / "locon.safetensors")
    return unet


def with_lora(pipe, names, scales):
    """The pipeline with LoRA files merged; undone by without_lora."""
    cls, level = type(pipe.text_encoder), getattr(type(pipe.text_encoder), "text_model", None)
    if level is not None:  # of pipeline_of: diffusers leaves the level out of names where the class has none
        del cls.text_model
    for name, scale in zip(names, scales):
        pipe.load_lora_weights(str(write_lora(name, pipe)), adapter_name=name)
    pipe.set_adapters(list(names), list(scales))
    pipe.fuse_lora(adapter_names=list(names))
    if level is not None:
        cls.text_model = level


def without_lora(pipe):
    pipe.unfuse_lora()
    pipe.unload_lora_weights()


def add_checker(pipe, name, args):
    """A safety checker whose thresholds flag two pictures of a call: one by a concept, and one by another that counts only where a special one is seen."""
    checker, extractor = checker_of(name), transformers.CLIPImageProcessor(size={"shortest_edge": 14}, crop_size=12)
    pictures = pipe(**args, generator=torch.Generator().manual_seed(3), output_type="pil").images
    pipe.register_modules(safety_checker=checker, feature_extractor=extractor)
    with torch.no_grad():
        x = checker.visual_projection(checker.vision_model(extractor(pictures, return_tensors="pt").pixel_values)[1])
        special, concepts = cosine_distance(x, checker.special_care_embeds), cosine_distance(x, checker.concept_embeds)
        checker.special_care_embeds_weights.fill_(1.0)
        checker.concept_embeds_weights.fill_(1.0)
        def ahead(cosines, pictures):
            """(how far, picture, concept): the one of `pictures` that is furthest ahead of all others."""
            best = [(float(cosines[i, c] - torch.cat([cosines[:i, c], cosines[i + 1:, c]]).max()), i, c) for i in pictures for c in range(cosines.shape[1])]
            return max(best)

        everyone = range(len(pictures))
        far, first, concept = ahead(concepts, everyone)
        checker.concept_embeds_weights[concept] = concepts[first, concept] - far / 2
        far_special, seen, near = ahead(special, [i for i in everyone if i != first])
        checker.special_care_embeds_weights[near] = special[seen, near] - far_special / 2
        far_other, _, other = ahead(concepts, [seen])
        assert min(far, far_special, far_other) > 0.01, (far, far_special, far_other)
        checker.concept_embeds_weights[other] = concepts[seen, other] + 0.005


def write_pixels(directory, case, found, args, flagged=None):
    if flagged is not None:
        args = {**args, "nsfw_content_detected": flagged}
    pixels = torch.from_numpy(np.ascontiguousarray((found * 255).round().astype(np.uint8)))
    save_file({"pixels": pixels}, directory / f"golden.{case}.safetensors", metadata={"args": json.dumps(args)})


def pipelines(wanted):
    sd = dict(SD, steps_offset=1)
    cases = {
        "euler": (D.EulerDiscreteScheduler(**sd, timestep_spacing="leading"), {}, [
            ("plain", dict(prompt=["a cat", "the dog, red"], num_inference_steps=4, seed=3)),
            ("pndm", dict(prompt=["a cat"], num_inference_steps=4, seed=5, scheduler="PNDMScheduler", num_images_per_prompt=2)),
            ("negative", dict(prompt=["a cat"], negative_prompt="blue", num_inference_steps=20, guidance_scale=3.0, seed=11, height=24, width=40, clip_skip=1)),
            ("picture", dict(prompt=["a cat"], image="image/pictures/rgb.png", strength=0.6, num_inference_steps=10, seed=8, num_images_per_prompt=2)),
            ("pictures", dict(prompt=["a cat", "b"], image="image/pictures/rgb.png", strength=0.75, num_inference_steps=4, seeds=[8, 9], scheduler="PNDMScheduler")),
            ("mask", dict(prompt=["a cat"], image="image/pictures/rgb.png", mask_image="image/pictures/grey.png", num_inference_steps=4, seed=8, num_images_per_prompt=2, height=24, width=40,
                          scheduler="EulerAncestralDiscreteScheduler")),
            ("mask_part", dict(prompt=["a cat", "b"], image="image/pictures/rgb.png", mask_image="image/pictures/wide.png", strength=0.6, num_inference_steps=10, seeds=[8, 9],
                               scheduler="PNDMScheduler")),
            ("tiles", dict(prompt=["a cat"], vae_tiling=True, num_inference_steps=2, seed=8, height=40, width=56)),
            ("tiles_mask", dict(prompt=["a cat"], image="image/pictures/rgb.png", mask_image="image/pictures/grey.png", strength=0.8, vae_tiling=True, num_inference_steps=5, seed=8, height=16,
                                width=24)),
            ("decoder", dict(prompt=["a cat"], image="image/pictures/rgb.png", mask_image="image/pictures/grey.png", strength=0.8, decoder="models/vae_tiny", num_inference_steps=5, seed=8,
                             scheduler="EulerAncestralDiscreteScheduler")),
            ("unguided", dict(prompt=["x y z"], num_inference_steps=4, guidance_scale=1.0, seed=1, scheduler="EulerAncestralDiscreteScheduler")),
            ("unipc", dict(prompt=["a boat"], num_inference_steps=5, seed=2, scheduler="UniPCMultistepScheduler")),
            ("heun", dict(prompt=["a cat"], image="image/pictures/rgb.png", strength=0.6, num_inference_steps=5, seed=8, scheduler="HeunDiscreteScheduler")),
            ("kdpm2", dict(prompt=["a cat"], num_inference_steps=4, seed=5, scheduler="KDPM2AncestralDiscreteScheduler")),
            ("rescale", dict(prompt=["a " * 90], num_inference_steps=4, guidance_rescale=0.7, seeds=[4, 9], num_images_per_prompt=2, scheduler="DDIMScheduler", eta=0.5)),
            ("dpm", dict(prompt=["a boat"], num_inference_steps=20, seed=2 ** 33 + 1, scheduler="DPMSolverMultistepScheduler")),
            *((f"lora_{name}", dict(prompt=["a cat"], loras=names, scales=scales, num_inference_steps=3, seed=8)) for name, names, scales in (
                ("peft", ["peft"], [0.7]), ("kohya", ["kohya"], [1.0]), ("old", ["old"], [-0.5]), ("two", ["plain", "kohya"], [1.0, 0.5]), ("dora", ["dora"], [1.0]), ("dora_part", ["dora"], [0.6]), ("loha", ["loha"], [0.7]), ("loha_tucker", ["loha_tucker"], [1.0]),
                ("lokr", ["lokr"], [0.5]), ("lokr_tucker", ["lokr_tucker"], [1.0]), ("lokr_whole", ["lokr_whole"], [1.0]), ("locon", ["locon"], [0.8])))]),  # last: what is merged leaves the weights by a rounding other than they were
        "xl": (D.EulerDiscreteScheduler(**sd, timestep_spacing="leading"), {"xl": True, "unet": XL, "vae": {"scaling_factor": 0.13025}}, [
            ("plain", dict(prompt=["a cat", "the dog, red"], num_inference_steps=4, seed=3)),
            ("negative", dict(prompt=["a cat"], negative_prompt="blue", num_inference_steps=20, seed=6, height=24, width=40, clip_skip=1)),
            ("unguided", dict(prompt=["a cat"], guidance_scale=0.0, num_inference_steps=1, seed=6, scheduler="EulerAncestralDiscreteScheduler")),
            ("lora", dict(prompt=["a cat"], loras=["xl"], scales=[0.8], num_inference_steps=2, seed=8)),
            ("lora_original", dict(prompt=["a cat"], loras=["xl_original"], scales=[1.0], num_inference_steps=2, seed=8)),
            ("lora_kohya", dict(prompt=["a cat"], loras=["xl_kohya"], scales=[0.8], num_inference_steps=2, seed=8))]),
        "xl_kept": (D.DDIMScheduler(**sd, clip_sample=False), {"xl": True, "unet": XL, "force_zeros_for_empty_prompt": False, "vae": {
            "latents_mean": [0.1, -0.2, 0.3, 0.0], "latents_std": [1.1, 0.9, 1.0, 1.3]}}, [("plain", dict(prompt=["a cat"], num_inference_steps=4, seed=3)),
            ("picture", dict(prompt=["a cat"], image="image/pictures/rgb.png", strength=0.5, guidance_scale=4.0, num_inference_steps=8, seed=8)),
            ("mask", dict(prompt=["a cat"], image="image/pictures/rgb.png", mask_image="image/pictures/wide.png", num_inference_steps=4, seed=8))]),
        "sd3": (D.FlowMatchEulerDiscreteScheduler(shift=3.0), {"flow": True, "num_layers": 2, "qk_norm": "rms_norm", "dual_attention_layers": (0,)}, [
            ("plain", dict(prompt=["a cat", "the dog, red"], num_inference_steps=4, seed=3, height=16, width=24, max_sequence_length=9)),
            ("negative", dict(prompt=["a cat"], negative_prompt="blue", num_inference_steps=20, guidance_scale=3.0, seed=11, clip_skip=1, num_images_per_prompt=2)),
            ("unguided", dict(prompt=["x y z"], num_inference_steps=4, guidance_scale=1.0, seeds=[4, 9], num_images_per_prompt=2, scheduler="UniPCMultistepScheduler")),
            ("skip", dict(prompt=["a cat", "b"], negative_prompt="blue", num_inference_steps=6, guidance_scale=3.0, seed=4, max_sequence_length=9, skip_guidance_layers=[1], skip_layer_guidance_scale=1.5,
                          skip_layer_guidance_stop=0.7, skip_layer_guidance_start=0.1)),
            ("skip_first", dict(prompt=["a cat"], num_inference_steps=6, seed=4, num_images_per_prompt=2, max_sequence_length=9, skip_guidance_layers=[0, 1], skip_layer_guidance_stop=0.5)),
            ("picture", dict(prompt=["a cat", "b"], image="image/pictures/rgb.png", num_inference_steps=4, seed=8, max_sequence_length=9)),
            ("pictures", dict(prompt=["a cat"], negative_prompt="blue", image="image/pictures/wide.png", strength=0.75, num_inference_steps=10, guidance_scale=3.0, seeds=[8, 9],
                              num_images_per_prompt=2, height=16, width=24, max_sequence_length=9))]),
        "sd3_inpaint": (D.FlowMatchEulerDiscreteScheduler(shift=3.0), {"flow": True, "num_layers": 1, "t5": False, "latents": 16, "in_channels": 16, "out_channels": 16}, [
            ("mask", dict(prompt=["a cat"], image="image/pictures/rgb.png", mask_image="image/pictures/wide.png", num_inference_steps=5, seed=8, num_images_per_prompt=2, max_sequence_length=5)),
            ("mask_whole", dict(prompt=["a cat"], image="image/pictures/rgb.png", mask_image="image/pictures/grey.png", strength=1.0, guidance_scale=1.0, num_inference_steps=3, seed=9,
                                height=24, width=16, max_sequence_length=5))]),
        "sd3_sees_mask": (D.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True), {"flow": True, "num_layers": 1, "t5": False, "latents": 16, "in_channels": 33, "out_channels": 16}, [
            ("mask", dict(prompt=["a cat"], image="image/pictures/rgb.png", mask_image="image/pictures/wide.png", num_inference_steps=4, seed=8, num_images_per_prompt=2, max_sequence_length=5)),
            ("mask_whole", dict(prompt=["a cat", "b"], image="image/pictures/rgb.png", mask_image="image/pictures/wide.png", strength=1.0, num_inference_steps=2, seeds=[3, 4],
                                max_sequence_length=5))]),
        "sd3_without_t5": (D.UniPCMultistepScheduler(use_flow_sigmas=True, prediction_type="flow_prediction", use_dynamic_shifting=True), {"flow": True, "num_layers": 1, "t5": False}, [
            ("plain", dict(prompt=["a cat"], num_inference_steps=4, seed=3, max_sequence_length=5))]),
        "flux": (D.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift=3.0), {"flow": True, "flux": True, "guidance_embeds": True}, [
            ("plain", dict(prompt=["a cat", "the dog, red"], num_inference_steps=4, seed=3, height=16, width=24)),
            ("several", dict(prompt=["a cat"], num_inference_steps=20, guidance_scale=7.0, seeds=[1, 2], height=20, width=16, num_images_per_prompt=2, max_sequence_length=12)),
            ("long", dict(prompt=["the " * 60], num_inference_steps=4, seed=8, height=16, width=16, max_sequence_length=6)),
            ("true_cfg", dict(prompt=["a cat", "b"], negative_prompt="blue", true_cfg_scale=3.0, num_inference_steps=3, seed=5, height=16, width=24, max_sequence_length=6)),
            ("picture", dict(prompt=["a cat"], image="image/pictures/rgb.png", num_inference_steps=4, seeds=[8, 9], num_images_per_prompt=2, height=16, width=24, max_sequence_length=6)),
            ("picture_cfg", dict(prompt=["a cat"], negative_prompt="blue", true_cfg_scale=2.0, image="image/pictures/wide.png", strength=0.9, num_inference_steps=5, guidance_scale=2.5, seed=3,
                                 height=20, width=16, max_sequence_length=6)),
            ("mask", dict(prompt=["a cat"], image="image/pictures/rgb.png", mask_image="image/pictures/wide.png", num_inference_steps=5, seed=8, num_images_per_prompt=2, height=16, width=24,
                          max_sequence_length=6)),
            ("mask_whole", dict(prompt=["a cat", "b"], image="image/pictures/rgb.png", mask_image="image/pictures/grey.png", negative_prompt="blue", true_cfg_scale=2.0, strength=1.0,
                                num_inference_steps=3, seeds=[1, 2], height=24, width=16, max_sequence_length=6))]),
        "flux_schnell": (D.FlowMatchEulerDiscreteScheduler(), {"flow": True, "flux": True, "num_single_layers": 1}, [
            ("plain", dict(prompt=["a cat"], num_inference_steps=4, seed=3, height=16, width=20, guidance_scale=0.0))]),
        "inpaint": (D.DDIMScheduler(**sd, clip_sample=False, timestep_spacing="leading"), {"unet": {**SMALL, "in_channels": 9}, "vae": SMALL}, [
            ("mask", dict(prompt=["a cat"], image="image/pictures/rgb.png", mask_image="image/pictures/wide.png", num_inference_steps=4, seed=8, num_images_per_prompt=2, eta=0.3)),
            ("mask_part", dict(prompt=["a cat", "b"], image="image/pictures/rgb.png", mask_image="image/pictures/wide.png", strength=0.6, guidance_scale=1.0, num_inference_steps=10, seeds=[8, 9],
                               scheduler="EulerDiscreteScheduler"))]),
        "safety": (D.EulerDiscreteScheduler(**sd, timestep_spacing="leading"), {"unet": SMALL, "vae": SMALL}, [
            ("flagged", dict(prompt=["a cat", "the dog"], num_inference_steps=2, num_images_per_prompt=2, seed=3)),
            ("picture", dict(prompt=["a cat"], image="image/pictures/rgb.png", strength=0.9, num_inference_steps=4, seed=1, num_images_per_prompt=3))]),
        "lcm": (D.LCMScheduler(), {"unet": {"time_cond_proj_dim": 10}}, [("plain", dict(prompt=["a cat"], num_inference_steps=4, guidance_scale=8.5, seed=3))]),
    }
    for name, (scheduler, how, runs) in cases.items():
        if wanted and not any(("pipeline_" + name).startswith(w) for w in wanted):
            continue
        directory = DIFFUSION / "pipelines" / name
        shutil.rmtree(directory, ignore_errors=True)
        pipe = flow_pipeline_of(scheduler, **how) if how.pop("flow", False) else pipeline_of(scheduler, **how)
        if name == "safety":
            add_checker(pipe, name, {k: v for k, v in runs[0][1].items() if k != "seed"})
        if name == "sd3_sees_mask":
            pipe = D.StableDiffusion3InpaintPipeline(**pipe.components)
            pipe.set_progress_bar_config(disable=True)
        if name == "inpaint":
            pipe = D.StableDiffusionInpaintPipeline(**pipe.components, requires_safety_checker=False)
            pipe.set_progress_bar_config(disable=True)
        pipe.save_pretrained(directory, safe_serialization=True)
        for case, args in runs:
            own = dict(args)
            swapped = getattr(D, own.pop("scheduler", type(scheduler).__name__)).from_config(scheduler.config)
            if "seeds" in own:
                generator = [torch.Generator().manual_seed(s) for s in own.pop("seeds")]
            else:
                generator = torch.Generator().manual_seed(own.pop("seed"))
            if isinstance(own.get("negative_prompt"), str):
                own["negative_prompt"] = [own["negative_prompt"]] * len(own["prompt"])
            plain = pipe.unet if hasattr(pipe, "unet") else None
            if own.get("loras") == ["locon"]:
                pipe.unet = with_locon(pipe, *own.pop("scales"))
                own.pop("loras")
            if own.get("loras", [None])[0] in OTHERS:
                pipe.unet = with_other(pipe, own.pop("loras")[0], own.pop("scales")[0])
            (pipe.vae.enable_tiling if own.pop("vae_tiling", False) else pipe.vae.disable_tiling)()
            decoder, loras = own.pop("decoder", None), own.pop("loras", None)
            if loras:
                with_lora(pipe, loras, own.pop("scales"))
            kept, pipe.vae = pipe.vae, D.AutoencoderTiny.from_pretrained(FIXTURES / decoder) if decoder else pipe.vae
            run = pipe
            pipe.scheduler = swapped if "image" not in own else scheduler  # whose config the constructors of pipelines change
            for key in own.keys() & {"image", "mask_image"}:
                own[key] = Image.open(FIXTURES / own[key])
            if "image" in own:
                own["image"] = own["image"].convert("RGB")
                xl, mask = isinstance(pipe, D.StableDiffusionXLPipeline), "mask_image" in own
                kind = "Inpaint" if mask else "Img2Img"
                if hasattr(pipe, "transformer"):
                    run = getattr(D, ("StableDiffusion3" if type(pipe).__name__.startswith("StableDiffusion3") else "Flux") + kind + "Pipeline")(**pipe.components)
                elif xl:
                    run = (D.StableDiffusionXLInpaintPipeline if mask else D.StableDiffusionXLImg2ImgPipeline)(**pipe.components, **pipe_settings(pipe))
                else:
                    run = (D.StableDiffusionInpaintPipeline if mask else D.StableDiffusionImg2ImgPipeline)(**pipe.components, requires_safety_checker=False)
                run.set_progress_bar_config(disable=True)
                run.scheduler = swapped
                if isinstance(generator, list) and not mask and not isinstance(run, D.FluxImg2ImgPipeline):
                    own["image"] = [own["image"]] * len(generator)
            made = run(**own, generator=generator, output_type="np")
            pipe.vae = kept
            if plain is not None:
                pipe.unet = plain
            if loras:
                without_lora(pipe)
            write_pixels(directory, case, made.images, args, getattr(made, "nsfw_content_detected", None))
        print("pipeline", name, file=sys.stderr)


def main():
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    DIFFUSION.mkdir(exist_ok=True)
    components(wanted)
    if not wanted or "randn" in wanted:
        random_numbers()
    if not wanted or "schedulers" in wanted:
        all_schedulers()
    pipelines(wanted)
    unconditional(wanted)


if __name__ == "__main__":
    main()
