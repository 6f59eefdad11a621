"""What the tests of clients have in common: a server with tiny models, and the library's own answers to compare with.  Only the standard library
and the client itself may be imported in these files: each runs in a venv of its own."""
import os
import struct
import sys

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402
from serving import Server  # noqa: E402

PICTURE = os.path.join(FIXTURES, "image", "pictures", "colour_420.jpg")
SOUND = os.path.join(FIXTURES, "speech", "short.wav")


def fixture(place):
    return os.path.join(FIXTURES, *place.split("/"))


def serve(**places):
    """A running server with models of fixtures, by name; .url is its address, .stop() ends it."""
    return Server(*(f"{name}={fixture(place)}" for name, place in places.items()))


def model(place):
    """The model of a fixture, by the library itself."""
    return accel.Model(fixture(place), device="cpu")


def bits(rows):
    """Vectors as the bytes of their 32-bit floats."""
    return [b"".join(struct.pack("<f", x) for x in row) for row in rows]
