#!/usr/bin/env python3
"""What can this machine run on, and why not on the rest?"""
import accel


def main():
    for device in accel.devices():
        if device.usable:
            print(f"{device.name:12} {device.description}, {device.memory_total / 2**30:.1f} GiB")
        else:
            print(f"{device.name:12} not usable: {device.reason}\n{'':12} -> {device.remedy}")
    facts = accel.detect_hardware()
    print("AMD GPU:", facts["amd"], " CUDA GPU:", facts["cuda"])


if __name__ == "__main__":
    main()
