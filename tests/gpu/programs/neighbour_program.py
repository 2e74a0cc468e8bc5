"""PyTorch beside another process on the card. They wait for each other through
files in DIR. Every tensor is the driver's (or gpupool's): uncached.

    neighbour_program.py trains [DIR]   caches 60 % of the card, then trains;
                                        prints `loss STEP VALUE`
    neighbour_program.py asks DIR       asks for more than is left meanwhile
    neighbour_program.py serves DIR     does what files in DIR say: `ask` for
                                        8 GiB, `stop`
"""

import os
import sys
import time

import torch

GIB = 1 << 30
STEPS = 400
ASK_AT = 100  # the step at which the other one may ask
PAUSE_S = 0.02
WAIT_S = 90


def take(count):
    return torch.empty(count, dtype=torch.uint8, device="cuda")


def asked(count):
    """A tensor of that size, or None when memory is out."""
    try:
        return take(count)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        return None


class Meeting:
    """Files that say how far one is; without a folder nobody is there."""

    def __init__(self, folder):
        self.folder = folder

    def _path(self, name):
        return os.path.join(self.folder, name)

    def tell(self, name):
        if self.folder:
            with open(self._path(name), "w"):
                pass

    def told(self, name):
        return bool(self.folder) and os.path.exists(self._path(name))

    def wait(self, name):
        limit = time.monotonic() + WAIT_S
        while self.folder and not self.told(name):
            if time.monotonic() > limit:
                sys.exit("nobody said '%s'" % name)
            time.sleep(0.005)


def small_model():
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.Tanh(),
                                torch.nn.Linear(1024, 512)).cuda()
    batches = torch.randn(8, 256, 512).cuda()
    return model, torch.optim.SGD(model.parameters(), lr=0.05), batches


def trains(meeting):
    free, _ = torch.cuda.mem_get_info()
    cached = free * 6 // 10 // GIB
    big = [take(GIB) for _ in range(cached)]
    del big
    model, optimizer, batches = small_model()
    meeting.wait("ready")
    served_at = 0
    for step in range(STEPS):
        optimizer.zero_grad()
        batch = batches[step % len(batches)]
        loss = (model(batch) - batch.flip(1)).square().mean()
        loss.backward()
        optimizer.step()
        print("loss %d %s" % (step, float(loss).hex()), flush=True)
        if step == ASK_AT:
            meeting.tell("ask")
        if not served_at and meeting.told("served"):
            served_at = step
        if meeting.folder:
            time.sleep(PAUSE_S)
    print("result cached=%d served_at=%d" % (cached * GIB, served_at))
    meeting.tell("trained")


def asks(meeting):
    torch.ones(1, device="cuda")
    meeting.tell("ready")
    meeting.wait("ask")
    free, total = torch.cuda.mem_get_info()
    begin = time.monotonic()
    # At once what no free memory holds, then more a GiB at a time.
    one = asked(free + total // 10)
    first_ms = (time.monotonic() - begin) * 1000
    got = 0 if one is None else one.numel()
    more = []
    while got < free + total // 4:
        tensor = asked(GIB)
        if tensor is None:
            break
        more.append(tensor)
        got += GIB
    if one is not None:
        one[-1] = 3  # it is there
        assert int(one[-1]) == 3
    for tensor in more:
        tensor.fill_(5)
    meeting.tell("served")
    meeting.wait("trained")
    for tensor in more:  # and still its own
        assert int(tensor[0]) == 5 and int(tensor[-1]) == 5
    print("result free=%d first=%d got=%d first_ms=%d" % (
        free, 0 if one is None else one.numel(), got, first_ms))


def serves(meeting):
    """Holds 1 GiB, has 4 GiB cached, and goes on computing."""
    held = take(GIB)
    held.fill_(9)
    big = [take(GIB) for _ in range(4)]
    del big
    a = torch.eye(512, device="cuda")
    print("ready", flush=True)
    limit = time.monotonic() + WAIT_S
    while not meeting.told("stop") and time.monotonic() < limit:
        a = a @ a
        if meeting.told("ask"):
            os.unlink(os.path.join(meeting.folder, "ask"))
            big = asked(8 * GIB)
            print("asked %s" % ("refused" if big is None else "got"),
                  flush=True)
            del big
        time.sleep(PAUSE_S)
    assert float(a.sum()) == 512.0
    assert int(held[0]) == 9 and int(held[-1]) == 9
    print("result sum=512")


def main():
    print("pid %d" % os.getpid(), flush=True)
    what = {"trains": trains, "asks": asks, "serves": serves}[sys.argv[1]]
    what(Meeting(sys.argv[2] if len(sys.argv) > 2 else None))


main()
