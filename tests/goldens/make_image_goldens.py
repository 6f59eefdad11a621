#!/usr/bin/env python3
"""Makes tests/fixtures/image: pictures of many kinds, and what Pillow, torchvision and transformers make of them.

    python3 tests/goldens/make_image_goldens.py [processor ...]      only these processors; needs torchvision and Pillow beside requirements.txt

pictures/*          files to be read; pictures.safetensors holds their pixels [height, width, 3] as transformers' load_image gives them
bad/*               files that must be refused
resize.safetensors  in.N pictures, out.N.FILTER.BACKEND.HEIGHT.WIDTH with Pillow's filter numbers; from Pillow only where its two orders
                    of passes agree
processors/NAME/    preprocessor_config.json and golden.safetensors: in.N pictures, out.* as the image processor returns it
"""
import io
import json
import pathlib
import shutil
import struct
import sys
import warnings
import zlib

warnings.filterwarnings("ignore")
import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.numpy import save_file
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional
from transformers.image_utils import load_image

ROOT = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "image"


def picture(width, height, seed=0):
    """Smooth colours with some noise: [height, width, 3] uint8."""
    random = np.random.RandomState(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = [127 + 90 * np.sin(x / (3 + c) + seed) * np.cos(y / (4 - c)) + 20 * random.randn(height, width) for c in range(3)]
    return np.clip(np.stack(planes, 2), 0, 255).astype(np.uint8)


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e.tobytes()


def png_chunks(width, height, depth, colour, rows):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows))) + chunk(b"IEND", b""))


def pictures():
    folder = ROOT / "pictures"
    folder.mkdir(parents=True)
    rgb = Image.fromarray(picture(37, 23))
    grey = rgb.convert("L")
    rgba = rgb.copy()
    rgba.putalpha(Image.fromarray(picture(37, 23, 5)[:, :, 0]))
    save = lambda image, name, **how: image.save(folder / name, **how)
    save(rgb, "rgb.png")
    save(rgba, "rgba.png")
    save(grey, "grey.png")
    save(rgba.convert("LA"), "grey_alpha.png")
    save(rgb.quantize(64), "palette.png")
    save(rgb.quantize(4), "palette_2_bits.png", bits=2)
    save(rgb.quantize(16), "palette_clear.png", transparency=3)
    save(rgb.convert("1"), "bilevel.png")
    save(grey, "grey_clear.png", transparency=100)
    save(rgb, "colour_clear.png", transparency=(0, 0, 0))
    random = np.random.RandomState(1)
    save(Image.fromarray((random.randint(0, 600, (9, 11))).astype(np.uint16)), "grey_16_bits.png")
    wide = random.randint(0, 65536, (6, 7, 3)).astype(">u2")
    (folder / "rgb_16_bits.png").write_bytes(png_chunks(7, 6, 16, 2, [r.tobytes() for r in wide]))
    wide = random.randint(0, 65536, (6, 7, 4)).astype(">u2")
    (folder / "rgba_16_bits.png").write_bytes(png_chunks(7, 6, 16, 6, [r.tobytes() for r in wide]))
    (folder / "grey_2_bits.png").write_bytes(png_chunks(8, 3, 2, 0, [bytes([0x1B, 0xE4])] * 3))
    (folder / "grey_4_bits.png").write_bytes(png_chunks(5, 2, 4, 0, [bytes([0x01, 0x7F, 0xC0])] * 2))
    save(Image.fromarray(picture(1, 1)), "one_pixel.png")
    save(Image.fromarray(picture(300, 2)), "wide.png")
    save(rgb, "turned_png.png", exif=exif(6))
    for name, sampling in (("444", 0), ("422", 1), ("420", 2)):
        save(rgb, f"colour_{name}.jpg", quality=90, subsampling=sampling)
    save(rgb, "progressive.jpg", quality=70, progressive=True)
    save(grey, "grey.jpg", quality=80)
    save(rgb.convert("CMYK"), "cmyk.jpg", quality=90)
    save(Image.fromarray(picture(1, 1)), "one_pixel.jpg")
    save(Image.fromarray(picture(2, 200)), "tall.jpg")
    for orientation in range(1, 9):
        save(rgb, f"turned_{orientation}.jpg", quality=90, exif=exif(orientation))
    save(rgb, "lossless.webp", lossless=True)
    save(rgba, "lossless_alpha.webp", lossless=True, exact=True)
    save(rgb, "turned.webp", lossless=True, exif=exif(8))
    tensors = {p.name: np.ascontiguousarray(np.asarray(load_image(str(p)))) for p in sorted(folder.iterdir())}
    save_file(tensors, ROOT / "pictures.safetensors")


def bad():
    folder = ROOT / "bad"
    folder.mkdir(parents=True)
    stream = io.BytesIO()
    Image.fromarray(picture(40, 40)).save(stream, "PNG")
    png = stream.getvalue()
    stream = io.BytesIO()
    Image.fromarray(picture(40, 40)).save(stream, "JPEG")
    jpg = stream.getvalue()
    files = {"empty.png": b"", "cut.png": png[:-200], "cut_in_the_header.png": png[:20], "cut.jpg": jpg[:len(jpg) // 2], "cut_in_the_header.jpg": jpg[:30],
             "text.jpg": b"this is no picture", "crc.png": png[:60] + bytes([png[60] ^ 255]) + png[61:], "only_the_mark.jpg": b"\xff\xd8\xff",
             "bomb.png": png_chunks(60000, 60000, 8, 2, [b""]), "no_width.png": png_chunks(0, 5, 8, 2, [b""]), "gif.png": b"GIF89a" + bytes(20)}
    for name, content in files.items():
        (folder / name).write_bytes(content)


def resize():
    tensors = {}
    modes = {0: InterpolationMode.NEAREST_EXACT, 1: InterpolationMode.LANCZOS, 2: InterpolationMode.BILINEAR, 3: InterpolationMode.BICUBIC}
    shapes = [(31, 20, 17, 11), (20, 31, 45, 50), (7, 7, 7, 3), (1, 9, 4, 2), (64, 48, 5, 60), (33, 33, 33, 33), (13, 90, 40, 9)]
    for n, (width, height, to_width, to_height) in enumerate(shapes):
        x = picture(width, height, n)
        tensors[f"in.{n}"] = x
        for filter in range(6):
            image = Image.fromarray(x)
            out = np.asarray(image.resize((to_width, to_height), filter))
            columns_first = np.asarray(image.resize((to_width, height), filter).resize((to_width, to_height), filter))
            if filter == 0 or (out == columns_first).all():
                tensors[f"out.{n}.{filter}.pillow.{to_height}.{to_width}"] = np.ascontiguousarray(out)
            if filter in modes:
                y = functional.resize(torch.from_numpy(x).permute(2, 0, 1).contiguous(), [to_height, to_width], interpolation=modes[filter], antialias=True)
                tensors[f"out.{n}.{filter}.torch.{to_height}.{to_width}"] = np.ascontiguousarray(y.permute(1, 2, 0).numpy())
    save_file(tensors, ROOT / "resize.safetensors")


def processor(name, which, shapes, old=None):
    folder = ROOT / "processors" / name
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    which.save_pretrained(folder)
    if old:  # as files written years ago say it: read by the class, too
        (folder / "preprocessor_config.json").write_text(json.dumps(old, indent=1))
        which = type(which).from_pretrained(folder)
    inputs = [picture(w, h, i) for i, (w, h) in enumerate(shapes)]
    images = [Image.fromarray(x) for x in inputs]
    out = which(images=[images] if "Video" in type(which).__name__ else images, return_tensors="pt")
    tensors = {f"in.{i}": x for i, x in enumerate(inputs)}
    for key, value in out.items():
        value = torch.as_tensor(value)
        tensors["out." + key] = np.ascontiguousarray(value.numpy() if value.is_floating_point() else value.to(torch.int64).numpy())
    save_file(tensors, folder / "golden.safetensors")


def main():
    if not sys.argv[1:]:
        shutil.rmtree(ROOT, ignore_errors=True)
        pictures()
        bad()
        resize()
    t = transformers
    two = [(41, 30), (20, 33)]
    side = {"height": 24, "width": 20}
    processor("vit", t.ViTImageProcessor(size=side), two)
    processor("vit_old", t.ViTImageProcessor(), two, {"feature_extractor_type": "ViTFeatureExtractor", "size": 18, "resample": 3, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]})
    processor("vit_plain", t.ViTImageProcessor(size=side, do_normalize=False, resample=0), two)
    processor("vit_unscaled", t.ViTImageProcessor(size=side, do_rescale=False), two)
    processor("deit", t.DeiTImageProcessor(size={"height": 25, "width": 25}, crop_size={"height": 20, "width": 17}), two)
    processor("bit", t.BitImageProcessor(size={"shortest_edge": 21}, crop_size={"height": 16, "width": 16}), two)
    processor("clip", t.CLIPImageProcessor(size={"shortest_edge": 20}, crop_size={"height": 20, "width": 20}), two)
    processor("clip_large_crop", t.CLIPImageProcessor(size={"shortest_edge": 14}, crop_size={"height": 23, "width": 18}), two)
    processor("clip_old", t.CLIPImageProcessor(), two, {"feature_extractor_type": "CLIPFeatureExtractor", "size": 19, "crop_size": 16, "resample": 3, "do_normalize": True, "image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28]})
    processor("siglip", t.SiglipImageProcessor(size=side), two)
    processor("blip", t.BlipImageProcessor(size=side), two)
    processor("convnext", t.ConvNextImageProcessor(size={"shortest_edge": 18}, crop_pct=0.8), two)
    processor("segformer", t.SegformerImageProcessor(size=side), two)
    processor("dinov3", t.DINOv3ViTImageProcessor(size=side), two)
    processor("dinov3_bytes", t.DINOv3ViTImageProcessor(size=side, do_rescale=False, do_normalize=False), two[:1])
    processor("dinov3_large", t.DINOv3ViTImageProcessor(size={"height": 45, "width": 50}, resample=3, do_normalize=False), two)
    processor("dpt", t.DPTImageProcessor(size=side), two)
    processor("dpt_ratio", t.DPTImageProcessor(size={"height": 28, "width": 28}, keep_aspect_ratio=True, ensure_multiple_of=7, resample=2), two[:1])
    processor("dpt_tall", t.DPTImageProcessor(size={"height": 28, "width": 28}, keep_aspect_ratio=True, ensure_multiple_of=7), two[1:])
    processor("dpt_padded", t.DPTImageProcessor(size={"height": 23, "width": 30}, do_pad=True, size_divisor=8), two)
    processor("dpt_old", t.DPTImageProcessor(), two, {"feature_extractor_type": "DPTFeatureExtractor", "size": 21, "resample": 2, "do_center_crop": True, "crop_size": 15})
    pages = [(41, 30), (20, 33), (9, 8), (33, 33)]  # lying, standing, small, square
    processor("donut", t.DonutImageProcessor(size={"height": 24, "width": 19}), pages)
    processor("donut_turned", t.DonutImageProcessor(size={"height": 25, "width": 18}, do_align_long_axis=True), pages)
    processor("donut_wide", t.DonutImageProcessor(size={"height": 18, "width": 25}, do_align_long_axis=True, do_thumbnail=False), pages)
    processor("donut_thumbnail", t.DonutImageProcessor(size={"height": 17, "width": 23}, do_resize=False, do_pad=False), [(41, 30)])
    processor("donut_old", t.DonutImageProcessor(), pages, {"feature_extractor_type": "DonutFeatureExtractor", "size": [19, 24], "resample": 2, "do_normalize": True, "do_pad": True,
              "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.6, 0.7], "do_center_crop": True, "crop_size": 15})
    processor("layoutlmv3", t.LayoutLMv3ImageProcessor(size=side, apply_ocr=False), two)
    processor("llava", t.LlavaImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}, do_pad=True), two)
    processor("videomae", t.VideoMAEImageProcessor(size={"shortest_edge": 18}, crop_size={"height": 16, "width": 16}), [(41, 30)] * 3)
    processor("detr", t.DetrImageProcessor(size={"shortest_edge": 20, "longest_edge": 30}), [(41, 30), (20, 60), (33, 33)])
    processor("detr_old", t.DetrImageProcessor(), two, {"image_processor_type": "DetrImageProcessor", "size": 16, "max_size": 24, "do_resize": True, "do_normalize": True, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]})
    processor("rt_detr", t.RTDetrImageProcessor(size=side), two)
    processor("rt_detr_padded", t.RTDetrImageProcessor(size={"shortest_edge": 20, "longest_edge": 30}, do_normalize=True, do_pad=True), two)
    processor("yolos", t.YolosImageProcessor(size={"shortest_edge": 40, "longest_edge": 70}), [(61, 50), (40, 80)])
    processor("llava_next", t.LlavaNextImageProcessor(size={"shortest_edge": 12}, crop_size={"height": 12, "width": 12}, image_grid_pinpoints=[[12, 24], [24, 12], [24, 24], [36, 12]]), [(41, 30), (10, 50), (60, 13)])
    odd = [(41, 30), (3, 5), (7, 200), (33, 33)]  # to be made smaller, larger, long and thin, and left as it is but for whole blocks
    blocks = dict(patch_size=4, merge_size=2)
    processor("qwen2_vl", t.Qwen2VLImageProcessor(size={"shortest_edge": 256, "longest_edge": 1200}, **blocks), odd)
    processor("qwen2_vl_plain", t.Qwen2VLImageProcessor(size={"shortest_edge": 256, "longest_edge": 1200}, temporal_patch_size=1, do_normalize=False, do_rescale=False, **blocks), odd[:2])
    processor("qwen2_vl_old", t.Qwen2VLImageProcessor(), odd[:3], {"image_processor_type": "Qwen2VLImageProcessorFast", "min_pixels": 100, "max_pixels": 900, "patch_size": 3, "merge_size": 3, "temporal_patch_size": 3,
              "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711], "size": {"max_pixels": 9, "min_pixels": 1}})
    long = [(41, 30), (10, 50), (64, 13), (33, 33)]
    processor("gemma3", t.Gemma3ImageProcessor(size=side), two)
    processor("gemma3_crops", t.Gemma3ImageProcessor(size=side, do_pan_and_scan=True, pan_and_scan_min_crop_size=7, pan_and_scan_max_num_crops=3, pan_and_scan_min_ratio_to_activate=1.3), long)
    processor("got_ocr2", t.GotOcr2ImageProcessor(size=side), two)
    processor("got_ocr2_tiles", t.GotOcr2ImageProcessor(size={"height": 12, "width": 12}, crop_to_patches=True, min_patches=2, max_patches=6), long)
    processor("idefics3", t.Idefics3ImageProcessor(size={"longest_edge": 31}, max_image_size={"longest_edge": 14}), long)
    processor("idefics3_whole", t.Idefics3ImageProcessor(size={"longest_edge": 31}, max_image_size={"longest_edge": 14}, do_image_splitting=False, do_pad=False, resample=2), two)
    processor("smolvlm", t.SmolVLMImageProcessor(size={"longest_edge": 20}, max_image_size={"longest_edge": 20}, resample=3), long)
    processor("clip_padded", t.CLIPImageProcessor(), two, {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 12}, "do_center_crop": None, "do_pad": True})
    processor("vit_pad_size", t.ViTImageProcessor(size=side, do_pad=True, pad_size={"height": 30, "width": 21}), two)
    processor("segformer_crop", t.SegformerImageProcessor(), two, {"image_processor_type": "SegformerImageProcessor", "size": 18, "do_center_crop": True, "crop_size": 9, "do_pad": True, "pad_size": 40})
    processor("detr_crop", t.DetrImageProcessor(), two, {"image_processor_type": "DetrImageProcessor", "size": {"height": 14, "width": 17}, "do_center_crop": True, "crop_size": 9})
    processor("qwen2_vl_sizes", t.Qwen2VLImageProcessor(), [(40, 60), (500, 11)])


if __name__ == "__main__":
    main()
