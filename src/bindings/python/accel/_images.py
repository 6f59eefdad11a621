"""Pictures from texts, under the names of diffusers' pipelines."""
from __future__ import annotations

import ctypes as C
from typing import Any, Callable, List, Optional, Sequence, Union

from . import _types as T
from ._native import Media, check, decode, encode, lib, media_array, text_array
from ._tensors import make


class GeneratedImage:
    """A picture: `width`, `height`, `rgb` (bytes, row by row), the `prompt`'s number, the `seed` of its generator, how it was made as a text, `parameters`,
    and whether the safety checker `flagged` it (None: the pipeline has none)."""

    def __init__(self, image: Any) -> None:
        self.width, self.height, self.prompt, self.seed = image.width, image.height, image.prompt, image.seed
        self.rgb = C.string_at(image.rgb, 3 * image.width * image.height)
        self.flagged: Optional[bool] = None if image.flagged < 0 else bool(image.flagged)
        self.parameters = decode(image.parameters)

    @property
    def array(self) -> Any:
        """uint8 [height, width, 3]."""
        return make(self.rgb, T.U8, (self.height, self.width, 3))

    def pillow(self) -> Any:
        """As a picture of Pillow's."""
        from PIL import Image
        return Image.frombytes("RGB", (self.width, self.height), self.rgb)

    def save(self, path: str) -> None:
        """Writes a PNG file, with `parameters` in a text chunk."""
        pixels = C.create_string_buffer(self.rgb, len(self.rgb))
        image = T.accel_generated_image(self.width, self.height, C.cast(pixels, C.POINTER(C.c_uint8)), self.prompt, self.seed, parameters=encode(self.parameters))
        check(lib.accel_generated_image_write(C.byref(image), encode(str(path))))


class GeneratedImages:
    """`images`, those of the first prompt first; the class of the `scheduler`, and how many `steps` it made; nsfw_content_detected as of diffusers: which
    pictures the safety checker flagged (None: there is none)."""

    def __init__(self, found: Any) -> None:
        self.images: List[GeneratedImage] = [GeneratedImage(found.image[i]) for i in range(found.n)]
        self.scheduler, self.steps = decode(found.scheduler), found.steps
        self.nsfw_content_detected: Optional[List[Optional[bool]]] = [i.flagged for i in self.images] if any(i.flagged is not None for i in self.images) else None


StepFunction = Callable[[int, int, Any], Optional[bool]]


def _seed(generator: Any) -> int:
    """Of a number, or of a torch.Generator that nothing was drawn from."""
    return int(generator.initial_seed() if hasattr(generator, "initial_seed") else generator)


def text_to_image(handle: Any, prompts: Sequence[str], generator: Union[None, int, Sequence[int], Any] = None, on_step: Optional[StepFunction] = None,
                  image: Optional[Media] = None, mask_image: Optional[Media] = None, skip_guidance_layers: Optional[Sequence[int]] = None,
                  **options: Any) -> GeneratedImages:
    """accel_text_to_image(); options are the fields of accel_text_to_image_params."""
    how, pointer = lib.accel_text_to_image_params_default(), C.POINTER(T.accel_generated_images)()
    for name, value in options.items():
        if not hasattr(how, name):
            raise TypeError(f"text_to_image() has no option '{name}'")
        if value is not None:
            setattr(how, name, encode(value) if isinstance(value, str) else value)
    media = {name: media_array([value]) for name, value in (("image", image), ("mask_image", mask_image)) if value is not None}
    for name, value in media.items():
        setattr(how, name, value)
    layers = (C.c_uint32 * len(skip_guidance_layers))(*skip_guidance_layers) if skip_guidance_layers is not None else None
    if layers is not None:
        how.skip_guidance_layers, how.n_skip_guidance_layers = layers, len(layers)
    seeds = None
    if isinstance(generator, (list, tuple)):
        seeds = (C.c_uint64 * len(generator))(*(_seed(g) for g in generator))
        how.seeds, how.n_seeds = seeds, len(generator)
    elif generator is not None:
        how.seed = _seed(generator)
    raised: List[BaseException] = []

    def told(_: Any, step: int, steps: int, latents: Any, n: int) -> int:
        try:
            return int(on_step(step, steps, latents[:n]) is True)  # type: ignore[misc]
        except BaseException as error:  # told to the caller of text_to_image: nothing can pass through the library
            raised.append(error)
            return 1

    how.on_step = T.ImageStepFunction(told) if on_step is not None else T.ImageStepFunction()
    status = lib.accel_text_to_image(handle, text_array(prompts), len(prompts), C.byref(how), C.byref(pointer))
    if raised:
        raise raised[0]
    check(status)
    result = GeneratedImages(pointer.contents)
    lib.accel_generated_images_free(C.byref(pointer))
    return result
