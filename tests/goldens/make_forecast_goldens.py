#!/usr/bin/env python3
"""Makes the fixtures of models that forecast time series: tiny random Chronos, Chronos-Bolt (chronos-forecasting), TimesFM and PatchTST (transformers).

    python3 tests/goldens/make_forecast_goldens.py [name ...]

Each directory has config.json, model.safetensors, goldens of the program (what reaches it, what it gives) listed in goldens_forecast.list, and
forecasts.json: series with null for missing values, options, and what the reference's own pipeline answers, for tests/python/test_forecast.py.
"""
import json
import math
import os
import pathlib
import shutil
import sys
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
import transformers
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "models"
NAN = math.nan


def seed(text):
    torch.manual_seed(zlib.crc32(text.encode()))


def randomise(model):
    for name, p in sorted(model.named_parameters()):
        seed(name)
        with torch.no_grad():
            if name.endswith("position_enc"):
                continue
            if p.dim() >= 2:
                p.copy_(torch.randn_like(p) * (1.0 / p.shape[-1] ** 0.5))
            elif "norm" in name and name.endswith("weight"):
                p.copy_(1.0 + 0.2 * torch.randn_like(p))
            else:
                p.copy_(0.1 * torch.randn_like(p))
    for name, buffer in sorted(model.named_buffers()):
        seed(name)
        with torch.no_grad():
            if name.endswith("running_mean"):
                buffer.copy_(0.3 * torch.randn_like(buffer))
            elif name.endswith("running_var"):
                buffer.copy_(0.5 + torch.rand_like(buffer))
    return model.eval()


def series(n, phase=0.0, missing=()):
    """A wave with a trend; some values are missing."""
    values = [round(3.0 + 0.05 * i + 2.0 * math.sin(0.6 * i + phase), 4) for i in range(n)]
    return [NAN if i in missing else v for i, v in enumerate(values)]


def write(name, model, config=None):
    directory = ROOT / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    text = json.loads(model.config.to_json_string()) if config is None else config
    for key in ("_name_or_path", "transformers_version"):
        text.pop(key, None)
    text["architectures"] = [type(model).__name__]
    (directory / "config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
    tensors = {k: v.clone().contiguous() for k, v in model.state_dict().items() if k not in tied}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    return directory


def golden(directory, cls, case, inputs, outputs):
    file = f"golden.{cls}.{case}.safetensors"
    tensors = {f"in.{k}": v.clone().contiguous() for k, v in inputs.items()}
    tensors.update({f"out.{k}": v.to(torch.float32).clone().contiguous() for k, v in outputs.items()})
    save_file(tensors, directory / file, metadata={"mode": "forward", "args": "{}"})
    return f"{directory.name} {file} {cls}"


def plain(values):
    """Lists of a tensor with null where a value is missing."""
    if isinstance(values, torch.Tensor):
        values = values.tolist()
    if isinstance(values, list):
        return [plain(v) for v in values]
    return None if isinstance(values, float) and math.isnan(values) else values


def write_forecasts(directory, cases):
    (directory / "forecasts.json").write_text(json.dumps([{k: plain(v) for k, v in case.items()} for case in cases]) + "\n")


# ---- Chronos-Bolt ----

T5 = dict(d_model=16, d_kv=6, d_ff=21, num_layers=2, num_decoder_layers=2, num_heads=3, relative_attention_num_buckets=8, relative_attention_max_distance=10,
          feed_forward_proj="relu", pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)


def bolt_program(model, context):
    """What the model's own encode() makes of a context before its program begins, and the quantiles before they are scaled back."""
    from chronos.chronos_bolt import InstanceNorm
    kept = {}
    hook = model.input_patch_embedding.register_forward_hook(lambda _, args, __: kept.update(patches=args[0]))
    encoder = model.encoder.register_forward_hook(lambda _, __, kw, ___: kept.update(mask=kw["attention_mask"]), with_kwargs=True)
    inverse, InstanceNorm.inverse = InstanceNorm.inverse, lambda self, x, *_: x
    try:
        with torch.no_grad():
            preds = model(context=context).quantile_preds
    finally:
        InstanceNorm.inverse = inverse
        hook.remove()
        encoder.remove()
    return {"patches": kept["patches"], "patch_mask": kept["mask"].to(torch.int64)}, {"quantile_preds": preds}


def bolt(name, options, **t5):
    from chronos import ChronosBoltPipeline
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    config = transformers.T5Config(**{**T5, **t5})
    config.chronos_config = {**dict(context_length=24, prediction_length=5, input_patch_size=4, input_patch_stride=4, quantiles=[0.1, 0.3, 0.5, 0.7, 0.9],
                                    use_reg_token=True), **options}
    model = randomise(ChronosBoltModelForForecasting(config))
    directory = write(name, model)
    pipeline = ChronosBoltPipeline(model)
    width = 24
    rows = [series(width, 0.3), [NAN] * 7 + series(width - 7, 1.0, missing=(3, 4, 11))]
    lines = [golden(directory, type(model).__name__, "missing", *bolt_program(model, torch.tensor(rows)))]
    cases = []
    for given in (dict(horizon=3, quantiles=[0.1, 0.5, 0.9]), dict(horizon=5, quantiles=[0.2, 0.5, 0.85, 0.95]), dict(horizon=12, quantiles=[0.3, 0.5])):
        of = [series(9, 0.1), series(40, 2.0, missing=(0, 1, 20, 38)), [7.5] * 6, [NAN, NAN, 4.0]]
        quantiles, mean = pipeline.predict_quantiles([torch.tensor(s) for s in of], prediction_length=given["horizon"], quantile_levels=given["quantiles"])
        cases.append(dict(given, series=of, mean=mean, answer=quantiles))
    write_forecasts(directory, cases)
    return lines


def bolt_fixtures():
    yield "chronos_bolt", lambda name: bolt(name, {})
    yield "chronos_bolt_plain", lambda name: bolt(name, dict(use_reg_token=False, input_patch_size=6, input_patch_stride=3), feed_forward_proj="gated-gelu",
                                                  num_decoder_layers=1, num_layers=1)


# ---- TimesFM ----

def timesfm(name, **options):
    config = transformers.TimesFmConfig(**{**dict(patch_length=4, context_length=24, horizon_length=7, num_hidden_layers=2, hidden_size=18, intermediate_size=13,
                                                  head_dim=5, num_attention_heads=3), **options})
    model = randomise(transformers.TimesFmModelForPrediction._from_config(config, attn_implementation="eager"))
    directory = write(name, model)
    kept = {}
    model.decoder.input_ff_layer.register_forward_hook(lambda _, args, __: kept.update(patches=args[0]))
    model.horizon_ff_layer.register_forward_hook(lambda _, __, out: kept.update(answer=out[:, -1]))
    of = [series(9, 0.1), series(40, 2.0), series(24, 1.0), [4.0, 4.5], [2.5] * 30]
    with torch.no_grad():
        out = model(past_values=[torch.tensor(s) for s in of], freq=[1] * len(of))
    levels = list(config.quantiles)
    pads = kept["patches"][:, :, config.patch_length:]
    mask = 1 - pads.min(dim=-1).values
    first = mask.argmax(dim=1, keepdim=True)
    count = mask.shape[1]
    inputs = {"patches": kept["patches"], "patch_mask": mask.to(torch.int64), "freq": torch.ones(len(of), dtype=torch.int64)}
    if config.use_positional_embedding:
        inputs["positions"] = (torch.arange(count)[None] - first) % count
    lines = [golden(directory, type(model).__name__, "padded", inputs, {"full_predictions": kept["answer"].view(len(of), config.horizon_length, -1)})]
    cases = []
    for horizon, wanted in ((config.horizon_length, levels), (3, levels[1:2] + levels[-1:])):
        places = [levels.index(level) + 1 for level in wanted]
        cases.append(dict(horizon=horizon, quantiles=wanted, frequency=1, series=of, mean=out.mean_predictions[:, :horizon],
                          answer=out.full_predictions[:, :horizon, places]))
    write_forecasts(directory, cases)
    return lines


def timesfm_fixtures():
    yield "timesfm", lambda name: timesfm(name)
    yield "timesfm_positions", lambda name: timesfm(name, use_positional_embedding=True, quantiles=[0.25, 0.5, 0.75], num_hidden_layers=1, max_timescale=50,
                                                    rms_norm_eps=1e-3, freq_size=2, context_length=28)


# ---- PatchTST ----

def patchtst(name, **options):
    config = transformers.PatchTSTConfig(**{**dict(num_input_channels=3, context_length=23, patch_length=5, patch_stride=4, num_hidden_layers=2, d_model=12,
                                                   num_attention_heads=3, ffn_dim=17, prediction_length=6), **options})
    model = randomise(transformers.PatchTSTForPrediction(config))
    directory = write(name, model)
    channels, length = config.num_input_channels, config.context_length
    of = [series(length + k, 0.7 * k, missing=(4, 9) if k == 1 else ()) for k in range(2 * channels)]
    rows = torch.tensor([s[-length:] for s in of]).view(2, channels, length).transpose(1, 2)
    inputs = {"past_values": rows.nan_to_num(0.0), "past_observed_mask": (~rows.isnan()).float()}
    lines = []
    with torch.no_grad():
        out = model(**inputs)
        base = model.model(**inputs, output_hidden_states=True)
        lines.append(golden(directory, "PatchTSTForPrediction", "missing", inputs, {k: out[k] for k in ("prediction_outputs", "loc", "scale")}))
        states = {f"hidden_states.{i}": v for i, v in enumerate(base.hidden_states)}
        lines.append(golden(directory, "PatchTSTModel", "missing", inputs, dict(last_hidden_state=base.last_hidden_state, loc=base.loc, scale=base.scale, **states)))
    mean = out.prediction_outputs.transpose(1, 2).reshape(2 * channels, -1)
    write_forecasts(directory, [dict(horizon=config.prediction_length, series=of, mean=mean), dict(horizon=2, series=of, mean=mean[:, :2])])
    return lines


def patchtst_fixtures():
    yield "patchtst", lambda name: patchtst(name)
    yield "patchtst_channels", lambda name: patchtst(name, channel_attention=True, use_cls_token=True, norm_type="layernorm", pre_norm=False, scaling="mean",
                                                     share_embedding=False, num_hidden_layers=1, norm_eps=1e-3, activation_function="relu")
    yield "patchtst_flat", lambda name: patchtst(name, pooling_type=None, scaling=None, bias=False, num_hidden_layers=1, num_input_channels=2,
                                                 positional_encoding_type="random")
    yield "patchtst_max", lambda name: patchtst(name, pooling_type="max", channel_attention=True, num_hidden_layers=1, num_input_channels=1, patch_stride=5)


# ---- Chronos ----

def chronos(name, options, **t5):
    from chronos.chronos import ChronosConfig, ChronosModel, ChronosPipeline
    config = transformers.T5Config(**{**T5, "vocab_size": 40, **t5})
    config.chronos_config = {**dict(tokenizer_class="MeanScaleUniformBins", tokenizer_kwargs=dict(low_limit=-4.0, high_limit=4.0), context_length=20,
                                    prediction_length=4, n_tokens=40, n_special_tokens=2, pad_token_id=0, eos_token_id=1, use_eos_token=True,
                                    model_type="seq2seq", num_samples=5, temperature=1.0, top_k=12, top_p=1.0), **options}
    model = randomise(transformers.T5ForConditionalGeneration(config))
    directory = write(name, model)
    own = ChronosConfig(**config.chronos_config)
    pipeline = ChronosPipeline(own.create_tokenizer(), ChronosModel(own, model))
    of = [series(9, 0.1), series(40, 2.0, missing=(22, 23, 30, 38)), [0.0] * 6, [NAN, NAN, -4.0]]
    rows = torch.nn.utils.rnn.pad_sequence([torch.tensor(s[-20:]) for s in of[1:2]], batch_first=True)
    ids = pipeline.tokenizer.context_input_transform(rows.nan_to_num(1.0))[0]
    inputs = {"input_ids": ids, "decoder_input_ids": torch.tensor([[0, 7, 19]])}
    with torch.no_grad():
        lines = [golden(directory, "T5ForConditionalGeneration", "single", inputs, {"logits": model(**inputs).logits})]
    cases = []
    for given in (dict(horizon=3, quantiles=[0.1, 0.5, 0.9], seed=1), dict(horizon=6, quantiles=[0.2, 0.85], seed=7, samples=4, top_k=0, top_p=0.8, temperature=0.7)):
        torch.manual_seed(given["seed"])
        draws = {k: given[k] for k in ("temperature", "top_k", "top_p") if k in given}
        tensors = [torch.tensor(s) for s in of]
        paths = pipeline.predict(tensors, prediction_length=given["horizon"], num_samples=given.get("samples"), **draws)
        torch.manual_seed(given["seed"])
        quantiles, mean = pipeline.predict_quantiles(tensors, prediction_length=given["horizon"], quantile_levels=given["quantiles"],
                                                     num_samples=given.get("samples"), **draws)
        cases.append(dict(given, series=of, mean=mean, answer=quantiles, paths=paths))
    write_forecasts(directory, cases)
    return lines


def chronos_fixtures():
    yield "chronos", lambda name: chronos(name, {})
    yield "chronos_plain", lambda name: chronos(name, dict(use_eos_token=False, n_special_tokens=3, temperature=1.3, top_p=0.9, top_k=0), vocab_size=43,
                                                feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_layers=1, num_decoder_layers=1)


GROUPS = [chronos_fixtures, bolt_fixtures, timesfm_fixtures, patchtst_fixtures]


def main(wanted):
    torch.set_num_threads(1)
    listing = ROOT / "goldens_forecast.list"
    lines = [] if not wanted or not listing.exists() else [line for line in listing.read_text().splitlines() if line.split()[0] not in wanted]
    for group in GROUPS:
        for name, make in group():
            if wanted and name not in wanted:
                continue
            lines += make(name)
            print(name, file=sys.stderr)
    listing.write_text("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
