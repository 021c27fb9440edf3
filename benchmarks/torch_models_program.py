"""torch_models_program: the decoder of torch_workloads.py: transformers' Llama where that is installed, else the same shape in plain torch.

Import it once the allocator's settings are in the environment: it imports torch.
"""

import torch
from torch import nn
from torch.nn import functional


def decoder(size, device: str, dtype: torch.dtype) -> tuple[nn.Module, str]:
    """The module, and which of the two it is. Called with token ids, keys and values so far, and whether to keep them."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        return Plain(size).to(device=device, dtype=dtype), "plain torch"
    config = LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.hidden * 11 // 4,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads // 4 or 1,
        max_position_embeddings=4096,
        attn_implementation="eager",
    )
    return Theirs(LlamaForCausalLM(config)).to(device=device, dtype=dtype), "transformers' LlamaForCausalLM"


class Theirs(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids, cache=None, *, keep=False):
        """Logits, and the keys and values so far where `keep`."""
        made = self.model(input_ids=ids, past_key_values=cache, use_cache=keep)
        return made.logits, made.past_key_values


class Plain(nn.Module):
    def __init__(self, size) -> None:
        super().__init__()
        self.embed = nn.Embedding(size.vocabulary, size.hidden)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.norm, self.head = nn.RMSNorm(size.hidden), nn.Linear(size.hidden, size.vocabulary, bias=False)

    def forward(self, ids, cache=None, *, keep=False):
        """As Theirs."""
        x, kept = self.embed(ids), []
        for layer, past in zip(self.layers, cache or [None] * len(self.layers), strict=True):
            x, now = layer(x, past)
            kept.append(now)
        return self.head(self.norm(x)), kept if keep else None


class Layer(nn.Module):
    def __init__(self, size) -> None:
        super().__init__()
        self.heads, wide = size.heads, size.hidden * 11 // 4
        self.before, self.after = nn.RMSNorm(size.hidden), nn.RMSNorm(size.hidden)
        self.qkv = nn.Linear(size.hidden, 3 * size.hidden, bias=False)
        self.out = nn.Linear(size.hidden, size.hidden, bias=False)
        self.gate, self.up = (nn.Linear(size.hidden, wide, bias=False) for _ in range(2))
        self.down = nn.Linear(wide, size.hidden, bias=False)

    def forward(self, x, past):
        n, t, d = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.before(x)).split(d, -1))
        start = 0 if past is None else past[0].shape[-2]
        q, k = rotated(q, start), rotated(k, start)
        if past is not None:
            k, v = torch.cat([past[0], k], -2), torch.cat([past[1], v], -2)
        scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        hidden = torch.ones(t, start + t, dtype=torch.bool, device=x.device).triu(start + 1)
        seen = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        x = x + self.out(seen.transpose(1, 2).reshape(n, t, d))
        return x + self.down(functional.silu(self.gate(self.after(x))) * self.up(self.after(x))), (k, v)


def rotated(x, start: int):
    """Rotary positions, from `start` on."""
    half = x.shape[-1] // 2
    inverse = 10000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = torch.arange(start, start + x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * inverse
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
