#!/usr/bin/env python3
"""Models to train for a few steps, the same way every time: ordinary PyTorch
programs with changing shapes that know nothing of gpupool.

    models.py NAME[,NAME...] [--steps N] [--seed S] [--warm W] ...

Prints, per model, `result model=... loss=... total=...` (loss of the last step
and the sum over all steps, every digit) and `figures {json}` with the median
step time and the memory seen. Nothing is downloaded; weights are random.
"""

import argparse
import gc
import json
import os
import random
import sys
import threading
import time
from contextlib import nullcontext

# cuBLAS takes other paths from run to run without it. Read when it starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402


class Least:
    """In place of random numbers: always the smallest."""

    @staticmethod
    def randint(low, high):
        return low


class Task:
    """A model, its optimiser, and one training step at a time. Shapes come
    from `draw`, data from PyTorch's generators: both seeded, so two runs see
    the same."""

    autocast = True

    def __init__(self, device, seed, small):
        self.device, self.small = device, small
        self.draw = random.Random(seed)
        torch.manual_seed(seed)
        self.model = self.make().to(device)
        self.optimizer = self.make_optimizer()

    def make(self):
        """The model, on the host."""
        raise NotImplementedError

    def make_optimizer(self):
        return torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def loss(self, index):
        """The loss of one batch."""
        raise NotImplementedError

    def backward(self, index):
        """Forward and backward pass of one batch; its loss."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16,
                            enabled=self.autocast):
            loss = self.loss(index)
        loss.backward()
        return loss

    def step(self, index):
        """One training step; the loss as a float."""
        loss = self.backward(index)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def prime(self, seed):
        """Loads the libraries and kernels that a step needs, with the smallest
        batch, and gives the memory back. The weights stay as they are."""
        draw, self.draw = self.draw, Least()
        self.backward(0)
        self.optimizer.zero_grad(set_to_none=True)
        self.draw = draw
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        torch.manual_seed(seed)

    def tokens(self, vocabulary, batch, length):
        return torch.randint(vocabulary, (batch, length), device=self.device)


class Block(nn.Module):
    """One layer of a transformer, normalised first."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width,
                                                                    width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width,
                                                                    width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2)
                   for p in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(Task):
    """6 layers of width 1024, batch 8, lengths 128 to 512, next-token loss."""

    def make(self):
        width, layers = (64, 2) if self.small else (1024, 6)
        self.vocabulary = 100 if self.small else 8192
        return nn.ModuleDict({
            "embed": nn.Embedding(self.vocabulary, width),
            "place": nn.Embedding(512, width),
            "body": nn.Sequential(*[Block(width, 8) for _ in range(layers)]),
            "norm": nn.LayerNorm(width),
            "head": nn.Linear(width, self.vocabulary, bias=False)})

    def loss(self, index):
        length = self.draw.randint(128, 512) // (8 if self.small else 1)
        ids = self.tokens(self.vocabulary, 8, length)
        model = self.model
        places = torch.arange(length, device=self.device)
        x = model["embed"](ids) + model["place"](places)
        logits = model["head"](model["norm"](model["body"](x)))
        return F.cross_entropy(
            logits[:, :-1].reshape(-1, self.vocabulary).float(),
            ids[:, 1:].reshape(-1))


class Mlp(Task):
    """20 linear layers, batches of changing size: many small launches."""

    def make(self):
        width = 64 if self.small else 2048
        self.width = width
        layers = []
        for _ in range(20):
            layers += [nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, 10))

    def loss(self, index):
        batch = self.draw.randint(16, 1024)
        x = torch.randn(batch, self.width, device=self.device)
        labels = torch.randint(10, (batch,), device=self.device)
        return F.cross_entropy(self.model(x).float(), labels)


class Gpt2(Task):
    """GPT-2 (124 M parameters) from its configuration, lengths 128 to 1024."""

    def make(self):
        from transformers import GPT2Config, GPT2LMHeadModel
        self.config = (GPT2Config(n_layer=2, n_embd=64, n_head=4,
                                  vocab_size=100) if self.small
                       else GPT2Config())
        return GPT2LMHeadModel(self.config).train()

    def loss(self, index):
        length = self.draw.randint(128, 1024) // (16 if self.small else 1)
        ids = self.tokens(self.config.vocab_size, 8, length)
        return self.model(input_ids=ids, labels=ids, use_cache=False).loss


class ResNet50(Task):
    """ResNet-50, images and batches of changing size; every fifth step is
    followed by an evaluation with a larger batch."""

    autocast = False

    def make(self):
        import torchvision
        return torchvision.models.resnet50(weights=None)

    def make_optimizer(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def images(self, batch):
        if self.small:
            batch = 2
        size = 32 * self.draw.randint(4, 8) // (4 if self.small else 1)
        return torch.randn(batch, 3, size, size, device=self.device)

    def loss(self, index):
        images = self.images(self.draw.randint(16, 64))
        labels = torch.randint(1000, (len(images),), device=self.device)
        loss = F.cross_entropy(self.model(images), labels)
        if index % 5 == 4:
            self.model.eval()
            with torch.no_grad():
                self.model(self.images(self.draw.randint(64, 128)))
            self.model.train()
        return loss


class MaskRcnn(Task):
    """Mask R-CNN with a ResNet-50 backbone, made-up objects.

    Its backward pass adds with atomics in any order. With a learning rate the
    losses of two plain runs drift apart; so the weights stay as they are and
    the losses, forward passes alone, are equal to the last digit."""

    autocast = False
    deterministic = False  # would swap in another, compiled implementation

    def make(self):
        import torchvision
        sizes = dict(min_size=96, max_size=128) if self.small else {}
        return torchvision.models.detection.maskrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=20, **sizes)

    def make_optimizer(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)

    def target(self, height, width):
        """A few boxes with a filled half each."""
        boxes, labels = [], []
        masks = torch.zeros(self.draw.randint(1, 12), height, width,
                            dtype=torch.uint8, device=self.device)
        for mask in masks:
            left = self.draw.randint(0, width - 40)
            top = self.draw.randint(0, height - 40)
            right = self.draw.randint(left + 20, width - 1)
            bottom = self.draw.randint(top + 20, height - 1)
            boxes.append([left, top, right, bottom])
            labels.append(self.draw.randint(1, 19))
            mask[top:bottom, left:(left + right) // 2] = 1
        return {"boxes": torch.tensor(boxes, dtype=torch.float32,
                                      device=self.device),
                "labels": torch.tensor(labels, device=self.device),
                "masks": masks}

    def loss(self, index):
        batch = 1 if self.small else self.draw.randint(2, 5)
        least, most = (64, 128) if self.small else (400, 1000)
        images, targets = [], []
        for _ in range(batch):
            height = self.draw.randint(least, most)
            width = self.draw.randint(least, most)
            images.append(torch.rand(3, height, width, device=self.device))
            targets.append(self.target(height, width))
        return sum(self.model(images, targets).values())


class Sage(nn.Module):
    """One GraphSAGE layer: a node and the mean of its sampled neighbours."""

    def __init__(self, width_in, width_out):
        super().__init__()
        self.own = nn.Linear(width_in, width_out)
        self.near = nn.Linear(width_in, width_out)

    def forward(self, h, own, near):
        return F.relu(self.own(h[own]) + self.near(h[near].mean(dim=1)))


class GraphSage(Task):
    """Three layers over sampled neighbourhoods; every step has other sizes."""

    autocast = False

    def make(self):
        self.nodes = 2000 if self.small else 1000000
        width = 16 if self.small else 256
        self.features = torch.randn(self.nodes, 128).to(self.device)
        return nn.ModuleList([Sage(128, width), Sage(width, width),
                              Sage(width, width), nn.Linear(width, 40)])

    def loss(self, index):
        shrink = 32 if self.small else 1
        frontier = torch.randint(
            self.nodes, (self.draw.randint(512, 2048) // shrink,),
            device=self.device)
        labels = frontier % 40
        hops = []
        for most in (10, 8, 5):
            fan = self.draw.randint(2, most)
            near = torch.randint(self.nodes, (len(frontier), fan),
                                 device=self.device)
            wider, place = torch.unique(
                torch.cat([frontier, near.flatten()]), return_inverse=True)
            hops.append((place[:len(frontier)],
                         place[len(frontier):].view(-1, fan)))
            frontier = wider
        h = self.features[frontier]
        for layer, (own, near) in zip(self.model, reversed(hops)):
            h = layer(h, own, near)
        return F.cross_entropy(self.model[3](h), labels)


class Prefetch(Task):
    """A wide network whose batches, of changing size, come from pinned memory
    on a stream of their own, one batch ahead of the computation. A batch is
    scaled on that stream too, so that both streams allocate."""

    ahead = 2  # pinned buffers

    def make(self):
        rows, self.width = (64, 32) if self.small else (8192, 2048)
        cuda = self.device.type == "cuda"
        self.side = torch.cuda.Stream() if cuda else None
        self.host, self.copied = [], [None] * self.ahead
        for _ in range(self.ahead):
            data = torch.randn(rows, self.width)
            self.host.append(data.pin_memory() if cuda else data)
        self.batches = 0
        self.next = None
        wide = 2 * self.width
        return nn.Sequential(
            nn.Linear(self.width, wide), nn.GELU(), nn.Linear(wide, wide),
            nn.GELU(), nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, 1))

    def prime(self, seed):
        super().prime(seed)
        # The batch that was fetched ahead had the smallest size.
        self.next, self.batches = None, 0

    def fetch(self):
        """Begins to bring the next batch."""
        place = self.batches % self.ahead
        most = len(self.host[place])
        rows = self.draw.randint(most // 2, most)
        if self.copied[place]:
            self.copied[place].synchronize()  # its last copy is over
        self.host[place][:16].fill_(self.batches % 8 / 8)
        self.batches += 1
        with torch.cuda.stream(self.side) if self.side else nullcontext():
            batch = self.host[place][:rows].to(self.device, non_blocking=True)
            if self.side:
                self.copied[place] = self.side.record_event()
            return batch * 0.5

    def loss(self, index):
        batch = self.next if self.next is not None else self.fetch()
        if self.side:
            torch.cuda.current_stream().wait_stream(self.side)
            batch.record_stream(torch.cuda.current_stream())
        self.next = self.fetch()
        wanted = batch[:, :1].float()
        return F.mse_loss(self.model(batch).float(), wanted)


TASKS = {"transformer": Transformer, "mlp": Mlp, "gpt2": Gpt2,
         "resnet50": ResNet50, "maskrcnn": MaskRcnn, "graphsage": GraphSage,
         "prefetch": Prefetch}


class MemoryWatch:
    """The card's used memory as cudaMemGetInfo tells it, sampled by a thread
    if `interval` is set; `base` is what the context alone takes."""

    def __init__(self, device, interval):
        self.device, self.interval = device, interval
        self.peak = self.base = 0
        self.stopping = threading.Event()
        self.thread = None
        if device.type == "cuda":
            torch.zeros(1, device=device)
            self.base = self.peak = self.used()
            if interval:
                self.thread = threading.Thread(target=self.follow, daemon=True)
                self.thread.start()

    def used(self):
        free, total = torch.cuda.mem_get_info(self.device)
        return total - free

    def look(self):
        if self.device.type == "cuda":
            self.peak = max(self.peak, self.used())

    def follow(self):
        while not self.stopping.wait(self.interval):
            self.look()

    def stop(self):
        self.stopping.set()
        if self.thread:
            self.thread.join()


def make_deterministic(wanted):
    """The same operations in the same order each run, as far as PyTorch can;
    an operation that cannot only warns."""
    torch.use_deterministic_algorithms(wanted)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = wanted
    if hasattr(torch.utils, "deterministic"):
        # Would write every new tensor once more.
        torch.utils.deterministic.fill_uninitialized_memory = False
    for name in ("enable_mem_efficient_sdp", "enable_cudnn_sdp"):
        # Their backward passes add in any order.
        if wanted and hasattr(torch.backends.cuda, name):
            getattr(torch.backends.cuda, name)(False)


def train(name, args, device):
    """Runs one model; prints its result and its figures."""
    kind = TASKS[name]
    make_deterministic(not args.nondeterministic and
                       getattr(kind, "deterministic", True))
    watch = MemoryWatch(device, args.sample / 1e3)
    task = kind(device, args.seed, args.small)
    times, total, loss = [], 0.0, 0.0
    for index in range(args.steps):
        start = time.perf_counter()
        loss = task.step(index)  # .item() waits for the loss only
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        total += loss
        watch.look()
        if args.announce:
            print("step %d" % index, flush=True)
    watch.stop()
    warm = sorted(times[args.warm:] or times)
    figures = {"model": name, "steps": args.steps,
               "step_ms": 1e3 * warm[len(warm) // 2],
               "step_ms_min": 1e3 * warm[0], "step_ms_max": 1e3 * warm[-1],
               "train_s": sum(times), "base_bytes": watch.base,
               "meminfo_peak_bytes": watch.peak}
    if device.type == "cuda":
        figures["torch_allocated_peak"] = torch.cuda.max_memory_allocated()
        figures["torch_reserved_peak"] = torch.cuda.max_memory_reserved()
    print("figures " + json.dumps(figures))
    print("result model=%s loss=%r total=%r" % (name, loss, total), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", help="comma list of " + " ".join(TASKS))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warm", type=int, default=5,
                        help="steps not timed (default 5)")
    parser.add_argument("--sample", type=float, default=0, metavar="MS",
                        help="sample memory this often")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true",
                        help="tiny sizes, to try the script on a CPU")
    parser.add_argument("--nondeterministic", action="store_true")
    parser.add_argument("--announce", action="store_true",
                        help="print a line after each step")
    args = parser.parse_args()
    names = args.names.split(",")
    unknown = [name for name in names if name not in TASKS]
    if unknown:
        parser.error("unknown model: " + " ".join(unknown))
    device = torch.device(args.device)
    for name in names:
        train(name, args, device)
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    return 0


if __name__ == "__main__":
    sys.exit(main())
