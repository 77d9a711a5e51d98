"""Diffusion transformers of more than one stream in PyTorch, block by block as diffusers 0.3x runs them: SD3's MMDiT and Flux.
Made from a diffusers config with the first `layers` blocks of each kind; random weights. DiT is in trace_transformers.py.
"""
import torch
from torch import nn
from torch.nn import functional


class RootMeanSquare(nn.Module):
    """diffusers' RMSNorm: the sum in fp32, the scaling in the operand's type."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return (x * torch.rsqrt(variance + 1e-6)).to(self.weight.dtype) * self.weight


class Feed(nn.Module):
    """diffusers' FeedForward with gelu-approximate."""

    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


def rotated(x, angles):
    """diffusers' apply_rotary_emb: pairs beside one another, in fp32."""
    cos, sin = angles
    real, imaginary = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    turned = torch.stack([-imaginary, real], dim=-1).flatten(3)
    return (x.float() * cos[None, None] + turned.float() * sin[None, None]).to(x.dtype)


class Stream(nn.Module):
    """One stream's share of a joint block: modulation, projections of attention, MLP."""

    def __init__(self, width, heads, normed, last=False):
        super().__init__()
        self.heads, self.last = heads, last
        self.modulation = nn.Linear(width, (2 if last else 6) * width)
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.query_norm = RootMeanSquare(width // heads) if normed else None
        self.key_norm = RootMeanSquare(width // heads) if normed else None
        if not last:
            self.out = nn.Linear(width, width)
            self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
            self.feed = Feed(width)

    def modulated(self, x, condition):
        """x of attention and what scales the rest."""
        parts = self.modulation(functional.silu(condition)).chunk(2 if self.last else 6, dim=1)
        if self.last:
            return self.norm1(x) * (1 + parts[0][:, None]) + parts[1][:, None], None
        return self.norm1(x) * (1 + parts[1][:, None]) + parts[0][:, None], parts

    def heads_of(self, x):
        shape = (x.shape[0], -1, self.heads, x.shape[2] // self.heads)
        query, key, value = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        if self.query_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        return query, key, value

    def finish(self, x, mixed, parts):
        x = x + parts[2].unsqueeze(1) * self.out(mixed)
        inner = self.norm2(x) * (1 + parts[4][:, None]) + parts[3][:, None]
        return x + parts[5].unsqueeze(1) * self.feed(inner)


class JointBlock(nn.Module):
    """Image and text attend to one another; SD3 has the image first, Flux the text."""

    def __init__(self, width, heads, normed, image_first, last=False):
        super().__init__()
        self.image, self.text = Stream(width, heads, normed), Stream(width, heads, normed, last)
        self.image_first, self.last = image_first, last

    def forward(self, image, text, condition, angles):
        of_image, image_parts = self.image.modulated(image, condition)
        of_text, text_parts = self.text.modulated(text, condition)
        first, second = self.image.heads_of(of_image), self.text.heads_of(of_text)
        if not self.image_first:
            first, second = second, first
        query, key, value = (torch.cat([a, b], dim=2) for a, b in zip(first, second))
        if angles is not None:
            query, key = rotated(query, angles), rotated(key, angles)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        mixed = mixed.transpose(1, 2).reshape(image.shape[0], -1, image.shape[2]).to(query.dtype)
        if self.image_first:
            of_image, of_text = mixed[:, :image.shape[1]], mixed[:, image.shape[1]:]
        else:
            of_text, of_image = mixed[:, :text.shape[1]], mixed[:, text.shape[1]:]
        image = self.image.finish(image, of_image, image_parts)
        return image, (text if self.last else self.text.finish(text, of_text, text_parts))


class SingleBlock(nn.Module):
    """Flux: attention and MLP side by side on one stream, one projection out."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.modulation = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.query_norm, self.key_norm = RootMeanSquare(width // heads), RootMeanSquare(width // heads)
        self.out = nn.Linear(5 * width, width)

    def forward(self, x, condition, angles):
        shift, scale, gate = self.modulation(functional.silu(condition)).chunk(3, dim=1)
        inner = self.norm(x) * (1 + scale[:, None]) + shift[:, None]
        wide = functional.gelu(self.up(inner), approximate="tanh")
        shape = (x.shape[0], -1, self.heads, x.shape[2] // self.heads)
        query, key, value = (f(inner).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        query, key = rotated(self.query_norm(query), angles), rotated(self.key_norm(key), angles)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        mixed = mixed.transpose(1, 2).reshape(x.shape)
        return x + gate.unsqueeze(1) * self.out(torch.cat([mixed, wide], dim=2))


class JointTransformer(nn.Module):
    """SD3 (image tokens of latents given, 333 of text) or Flux (512 of text) without the text encoders: embeddings of the streams,
    of the time and of the pooled text, blocks, final layer."""

    def __init__(self, config, layers):
        super().__init__()
        flux = config["_class_name"].startswith("Flux")
        heads = config["num_attention_heads"]
        width, self.head_width = heads * config["attention_head_dim"], config["attention_head_dim"]
        self.flux, self.text_tokens, self.written_out = flux, 512 if flux else 333, False
        self.inputs = config["in_channels"] * (1 if flux else config["patch_size"] ** 2)
        self.embed, self.context = nn.Linear(self.inputs, width), nn.Linear(config["joint_attention_dim"], width)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.pooled = nn.Sequential(nn.Linear(config["pooled_projection_dim"], width), nn.SiLU(), nn.Linear(width, width))
        normed = flux or bool(config.get("qk_norm"))
        self.blocks = nn.ModuleList(JointBlock(width, heads, normed, not flux, not flux and i + 1 == config["num_layers"])
                                    for i in range(layers))
        self.singles = nn.ModuleList(SingleBlock(width, heads) for _ in range(layers if flux else 0))
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulation = nn.Linear(width, 2 * width)
        self.head = nn.Linear(width, self.inputs)

    def forward(self, image, text, pooled, timestep, angles):
        frequencies = torch.exp(torch.arange(128, device=image.device) * (-9.21 / 128))
        wave = timestep[:, None].float() * frequencies[None]
        wave = torch.cat([torch.cos(wave), torch.sin(wave)], dim=-1).to(image.dtype)
        condition = self.time(wave) + self.pooled(pooled)
        image, text = self.embed(image), self.context(text)
        for block in self.blocks:
            image, text = block(image, text, condition, angles)
        if self.flux:
            both = torch.cat([text, image], dim=1)
            for block in self.singles:
                both = block(both, condition, angles)
            image = both[:, text.shape[1]:]
        scale, shift = self.modulation(functional.silu(condition)).chunk(2, dim=1)
        return self.head(self.norm(image) * (1 + scale[:, None]) + shift[:, None])

    def example(self, batch, tokens, device, dtype):
        """Inputs of a step of `tokens` image tokens."""
        def random(*shape):
            return torch.randn(*shape, device=device, dtype=dtype)
        inputs = {"image": random(batch, tokens, self.inputs), "text": random(batch, self.text_tokens, self.context.in_features),
                  "pooled": random(batch, self.pooled[0].in_features), "angles": None,
                  "timestep": torch.randint(0, 1000, (batch,), device=device)}
        if self.flux:
            turns = torch.rand(tokens + self.text_tokens, self.head_width, device=device, dtype=torch.float32)
            inputs["angles"] = (torch.cos(turns), torch.sin(turns))
        return inputs
