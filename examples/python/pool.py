#!/usr/bin/env python3
"""Several models under one memory budget, each loaded when it is asked for: pool.py MIB MODEL..., of models that embed."""
import sys

import accel


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with accel.Pool(memory=int(sys.argv[1]) << 20) as pool:
        for model in sys.argv[2:]:
            pool.add(model, model)
        for _ in range(2):
            for name in sys.argv[2:]:
                with pool.model(name, timeout=60) as model:  # loaded as long as the block lasts, and until another needs its memory
                    vectors = model.submit_embed(["A sentence that every model embeds."]).wait()
                    print(f"{name}: {len(vectors[0])} numbers on {model.placement.device}")
        stats = pool.stats()
        print(f"{stats['loaded']} of {stats['models']} loaded, {stats['bytes'] / (1 << 20):.1f} MiB; {stats['loads']} loads in "
              f"{stats['load_seconds']:.3f} s, {stats['hits']} hits, {stats['evictions']} evictions")


if __name__ == "__main__":
    main()
