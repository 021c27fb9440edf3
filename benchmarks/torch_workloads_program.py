"""torch_workloads_program: one process of torch_workloads.py: a workload under one setting. On standard input it is told to run a round and
answers with its seconds; at the end with all that it computed and what its allocator held.
"""

import dataclasses
import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator

PYTORCH = {
    "default": "",
    "default, again": "",
    "expandable_segments": "expandable_segments:True",
    "max_split_size_mb": "max_split_size_mb:64",
    "roundup_power2_divisions": "roundup_power2_divisions:8",
    "garbage_collection_threshold": "garbage_collection_threshold:0.6",
}
OURS = "forebay"
SETTINGS = [*PYTORCH, OURS]
CONTROL, FRACTION = "default, again", 0.9  # collection does nothing without a fraction below 1
STEPS = {"serve": 4, "train": 4, "resnet": 4}  # a round


@dataclasses.dataclass
class Size:
    """Of the models and of what they are given."""

    hidden: int = 1024
    layers: int = 8
    heads: int = 16
    vocabulary: int = 8192
    prompt: tuple[int, int] = (16, 768)
    reply: tuple[int, int] = (8, 96)
    requests: int = 12
    batch: tuple[int, int] = (1, 8)
    length: tuple[int, int] = (64, 768)
    images: tuple[int, int] = (2, 24)
    side: tuple[int, int] = (4, 12)  # times 32 pixels


SMALL = Size(64, 2, 4, 128, (4, 12), (2, 6), 3, (1, 3), (8, 24), (1, 3), (1, 2))


def set_up(setting: str, device: str) -> None:
    """Before torch is imported: the allocator, and everything else that must not differ."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    os.environ.pop("PYTORCH_ALLOC_CONF", None)
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = PYTORCH.get(setting, "")
    import torch

    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    if setting == OURS and device == "cuda":
        from forebay.adapters.torch import install

        install()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(1)
    if device == "cuda" and setting == "garbage_collection_threshold":
        torch.cuda.set_per_process_memory_fraction(FRACTION)


def serve(size: Size, device: str) -> tuple[Iterator[object], str]:
    """Requests of mixed lengths come and go; each has keys and values that grow by a token a step. Tells the tokens."""
    import torch
    from torch_models_program import decoder

    model, which = decoder(size, device, torch.bfloat16 if device == "cuda" else torch.float32)
    model.eval()
    rng = random.Random(2)

    @torch.inference_mode()
    def steps() -> Iterator[object]:
        active: list[list] = []  # the next token, keys and values, tokens left
        while True:
            told = []
            while len(active) < size.requests:
                prompt = torch.tensor([[rng.randrange(size.vocabulary) for _ in range(rng.randint(*size.prompt))]], device=device)
                logits, cache = model(prompt, keep=True)
                active.append([logits[:, -1:].argmax(-1), cache, rng.randint(*size.reply)])
            for request in active:
                logits, request[1] = model(request[0], request[1], keep=True)
                request[0] = logits[:, -1:].argmax(-1)
                request[2] -= 1
                told.append(request[0])
            active = [request for request in active if request[2] > 0]
            yield torch.cat(told).flatten().tolist()

    return steps(), which


def train(size: Size, device: str) -> tuple[Iterator[object], str]:
    """Random batch and length, AdamW. Tells the losses."""
    import torch
    from torch_models_program import decoder

    model, which = decoder(size, device, torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    rng = random.Random(3)

    def steps() -> Iterator[object]:
        while True:
            shape = (rng.randint(*size.batch), rng.randint(*size.length))
            ids = torch.randint(size.vocabulary, shape, generator=torch.Generator().manual_seed(rng.randrange(2**31)))
            ids = ids.to(device)
            logits, _ = model(ids[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield loss.item().hex()

    return steps(), which


def resnet(size: Size, device: str) -> tuple[Iterator[object], str]:
    """Training on random numbers of images of random sides. Tells the losses."""
    import torch

    try:
        from torchvision.models import resnet50
    except ImportError:
        sys.exit("torchvision is not installed")
    model = resnet50(num_classes=100).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    rng = random.Random(4)

    def steps() -> Iterator[object]:
        while True:
            count, side = rng.randint(*size.images), 32 * rng.randint(*size.side)
            made = torch.Generator().manual_seed(rng.randrange(2**31))
            images = torch.randn(max(count, 2), 3, side, side, generator=made).to(device)
            labels = torch.randint(100, (max(count, 2),), generator=made).to(device)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield loss.item().hex()

    return steps(), "torchvision's resnet50"


WORKLOADS: dict[str, Callable[[Size, str], tuple[Iterator[object], str]]] = {"serve": serve, "train": train, "resnet": resnet}


def memory(setting: str, device: str) -> dict[str, int | None]:
    """Bytes at the peak, and calls of the driver, as whoever has the memory counts them."""
    if device != "cuda":
        return {}
    import torch

    if setting == OURS:
        from forebay.adapters.torch import figures

        ours = figures()
        pools = [pool if isinstance(pool, dict) else vars(pool) for pool in ours["pools"].values()]
        return {
            "peak_reserved_bytes": ours["peak_reserved"],
            "peak_allocated_bytes": None,
            "driver_allocs": sum(pool["driver_allocs"] for pool in pools),
            "driver_frees": sum(pool["driver_frees"] for pool in pools),
            "retries": sum(pool["retries"] for pool in pools),
        }
    stats = torch.cuda.memory_stats()
    return {
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "driver_allocs": stats["num_device_alloc"],
        "driver_frees": stats["num_device_free"],
        "retries": stats["num_alloc_retries"],
    }


def work(workload: str, setting: str, device: str, size: Size) -> None:
    """A worker: a line "round" runs one round and answers with its seconds; "end" answers with all that was computed."""
    import warnings

    warnings.simplefilter("ignore")
    set_up(setting, device)
    import torch

    steps, which = WORKLOADS[workload](size, device)
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    wait()
    say({"ready": which, "torch": torch.__version__})
    told: list[object] = []
    for line in sys.stdin:
        if line.strip() == "end":
            digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
            say({"digest": digest, "told": len(told), "first": told[:2], "last": told[-2:], **memory(setting, device)})
            return
        begun = time.perf_counter()
        told += [next(steps) for _ in range(STEPS[workload])]
        wait()
        say({"seconds": time.perf_counter() - begun})


def say(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], sys.argv[3], SMALL if sys.argv[4:] == ["small"] else Size())
