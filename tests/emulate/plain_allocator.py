"""plain_allocator: PyTorch's caching allocator once more, in plain lists and loops, as the oracle for native/emulate.

Written from the description of the algorithm alone, without the native code's structures: every search walks every block. Where both
agree on random programs, a mistake would have to be made twice.
"""

from dataclasses import dataclass, field

MIB = 2**20
SMALL, PAGE_SMALL = MIB, 2 * MIB


@dataclass(eq=False)
class Block:
    address: int
    size: int
    state: str  # free, allocated, pending, unmapped
    requested: int = 0
    born: int = 0


@dataclass(eq=False)
class Segment:
    base: int
    pool: int
    stream: int
    small: bool
    expandable: bool
    blocks: list[Block] = field(default_factory=list)


class PlainAllocator:
    """`addresses[n]` is where the n-th segment or range lies; `cap` and `capacity` are bytes or None."""

    def __init__(self, settings, addresses, *, cap=None, capacity=None, no_split=(), lends=(), private_releases=False):
        self.s, self.addresses, self.cap, self.capacity = settings, addresses, cap, capacity
        self.no_split, self.lends, self.private_releases = set(no_split), set(lends), private_releases
        self.segments, self.events, self.searches = [], [], {}
        self.reserved = self.allocated = self.peak_reserved = self.peak_allocated = 0
        self.made = self.retries = self.ooms = 0

    # sizes
    def rounded(self, n):
        if n < 512:
            return 512
        power = n.bit_length() - 1
        divisions = self.s.roundup_divisions[min(max(power - 20, 0), 15)]
        if divisions > 1 and n > 512 * divisions:
            step = 2**power // divisions
            return n if n == 2**power else -(-n // step) * step
        return -(-n // 512) * 512

    def segment_size(self, size):
        if size <= SMALL:
            return PAGE_SMALL
        return self.s.large_segment_size if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB

    # searching
    def mine(self, pool, stream, small):
        return [g for g in self.segments if (g.pool, g.stream, g.small) == (pool, stream, small)]

    def growth(self, segment, block):
        at = segment.blocks.index(block)
        after = segment.blocks[at + 1] if at + 1 < len(segment.blocks) else None
        return block.size + (after.size if after and after.state == "unmapped" else 0)

    def search(self, pool, stream, small, size):
        if self.collects():
            self.searches[pool, small] = self.searches.get((pool, small), 0) + 1
        fits = sorted(
            (
                (b.size, b.address, g, b)
                for g in self.mine(pool, stream, small)
                for b in g.blocks
                if b.state == "free" and b.size >= size
            ),
            key=lambda f: f[:2],
        )
        if not self.s.expandable_segments:
            fits = [f for f in fits if not f[2].expandable]
        elif fits:
            at = 0
            while fits[at][2].expandable and at + 1 < len(fits) and self.growth(*fits[at + 1][2:]) < self.growth(*fits[at][2:]):
                at += 1
            fits = fits[at:]
        if not fits:
            return None
        limit, found = self.s.max_split_size, fits[0]
        if limit is not None and size < limit <= found[0]:
            return None
        if limit is not None and size >= limit and found[0] >= size + self.s.max_non_split_rounding:
            return None
        return found[2:]

    def collects(self):
        return self.s.gc_threshold > 0 and self.cap is not None

    # driver
    def took(self, kind, address, size):
        self.events.append((kind, address, size))
        self.reserved += size
        self.made += 1
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def gave(self, kind, address, size):
        self.events.append((kind, address, size))
        self.reserved -= size

    def new_segment(self, pool, stream, small, size):
        wanted = self.segment_size(size)
        if self.cap is not None and self.reserved + wanted > self.cap:
            return None
        if self.s.expandable_segments:
            return self.grow(pool, stream, small, size)
        if self.capacity is not None and self.reserved + wanted > self.capacity:
            return None
        base = self.addresses[self.made]
        segment = Segment(base, pool, stream, small, False, [Block(base, wanted, "free")])
        self.segments.append(segment)
        self.took("alloc", base, wanted)
        return segment, segment.blocks[0]

    def grow(self, pool, stream, small, size):
        start = self.growable(pool, stream, small, size)
        segment, at = start
        page = PAGE_SMALL if small else self.s.large_segment_size
        while True:
            block = segment.blocks[at]
            have = 0
            if block.state == "free":
                if block.size >= size:
                    return segment, block
                have, hole = block.size, segment.blocks[at + 1]
            else:
                hole = block
            piece = min(-(-min(size - have, hole.size) // page) * page, hole.size)
            if self.capacity is not None and self.reserved + piece > self.capacity:
                return None
            self.took("map", hole.address, piece)
            if piece < hole.size:
                where = segment.blocks.index(hole)
                segment.blocks.insert(where + 1, Block(hole.address + piece, hole.size - piece, "unmapped"))
            hole.size, hole.state = piece, "free"
            merged = self.settle(segment, hole)
            at = segment.blocks.index(merged)

    def growable(self, pool, stream, small, size):
        candidates = sorted(
            ((b.address, g, n) for g in self.mine(pool, stream, small) for n, b in enumerate(g.blocks) if b.state == "unmapped"),
            key=lambda c: c[0],
        )
        for _, segment, n in candidates:
            first = n - 1 if n and segment.blocks[n - 1].state == "free" else n
            room = 0
            for block in segment.blocks[first:]:
                if block.state not in ("free", "unmapped"):
                    break
                room += block.size
            if room >= size:
                return segment, first
        page = PAGE_SMALL if small else self.s.large_segment_size
        base = self.addresses[self.made]
        extent = -(-(2**40 // 8 * 9) // page) * page
        segment = Segment(base, pool, stream, small, True, [Block(base, extent, "unmapped")])
        self.segments.append(segment)
        return segment, 0

    def settle(self, segment, block):
        """Joins the block with equal neighbours and dates it; returns what it became."""
        at = segment.blocks.index(block)
        for other in (at + 1, at - 1):
            if 0 <= other < len(segment.blocks) and segment.blocks[other].state == block.state:
                gone = segment.blocks[other]
                block.address, block.size = min(block.address, gone.address), block.size + gone.size
                del segment.blocks[other]
        block.born = self.searches.get((segment.pool, segment.small), 0)
        return block

    # giving back
    def free_segment(self, segment):
        self.segments.remove(segment)
        self.gave("free", segment.base, segment.blocks[0].size)

    def whole_idle(self, segment):
        return not segment.expandable and len(segment.blocks) == 1 and segment.blocks[0].state == "free"

    def collect(self):
        limit = int(self.s.gc_threshold * self.cap)
        excess, now = self.reserved - limit, self.searches.get((0, False), 0)
        if excess <= 0:
            return
        large = [g for g in self.segments if g.pool == 0 and not g.small]
        idle = [g for g in large if self.whole_idle(g) or (g.expandable and len(g.blocks) == 1 and g.blocks[0].state == "free")]
        idle.sort(key=lambda g: (g.stream, g.blocks[0].size, g.blocks[0].address))
        ages = {id(g): now - g.blocks[0].born for g in idle}
        while excess > 0 and idle:
            average = sum(ages[id(g)] for g in idle) / len(idle)
            old = [g for g in idle if ages[id(g)] >= average and not g.expandable]
            if not old:
                return
            for g in old:
                excess -= g.blocks[0].size
                idle.remove(g)
                self.free_segment(g)

    def release_enough(self, pool, stream, small, size):
        limit = self.s.max_split_size
        if limit is None:
            return False
        want = max(size, limit)
        free = sorted(
            ((b.size, b.address, g) for g in self.mine(pool, stream, small) for b in g.blocks if b.state == "free"),
            key=lambda f: f[:2],
        )
        large = [f for f in free if f[0] >= want]
        if large and not large[0][2].expandable:
            self.free_segment(large[0][2])
            return True
        freed = 0
        for have, _, g in reversed([f for f in free if f[0] < want]):
            if freed >= want or have < limit:
                break
            if not g.expandable:
                freed += have
                self.free_segment(g)
        return freed >= want

    def release_all(self):
        for g in list(self.segments):
            for b in list(g.blocks):
                if b.state == "pending":
                    self.reusable(g, b)
        for small in (False, True):
            mine = [g for g in self.segments if g.pool == 0 and g.small == small]
            free = [(g.stream, b.size, b.address, g, b) for g in mine for b in g.blocks if b.state == "free"]
            free.sort(key=lambda f: f[:3])
            for _, _, _, g, _ in [f for f in free if self.whole_idle(f[3])]:
                self.free_segment(g)
            for _, _, _, g, b in [f for f in free if f[3].expandable]:
                self.unmap(g, b)

    def unmap(self, g, b):
        page = PAGE_SMALL if g.small else self.s.large_segment_size
        first = g.base + -(-(b.address - g.base) // page) * page
        last = g.base + (b.address + b.size - g.base) // page * page
        if first >= last:
            return
        at, end, now = g.blocks.index(b), b.address + b.size, self.searches.get((g.pool, g.small), 0)
        pieces = [
            Block(b.address, first - b.address, "free", born=now),
            Block(first, last - first, "unmapped"),
            Block(last, end - last, "free", born=now),
        ]
        hole = pieces[1]
        g.blocks[at : at + 1] = [p for p in pieces if p.size]
        self.gave("unmap", first, last - first)
        self.settle(g, hole)
        if len(g.blocks) == 1:
            self.segments.remove(g)

    # what programs call
    def malloc(self, pool, stream, n):
        size = self.rounded(n)
        small = size <= SMALL
        found = self.find(pool, stream, small, size)
        if found is None:
            self.ooms += 1
            return None
        segment, block = found
        self.carve(segment, block, size)
        block.state, block.requested = "allocated", n
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return segment, block

    def find(self, pool, stream, small, size):
        if hit := self.search(pool, stream, small, size):
            return hit
        if self.collects():
            self.collect()
        if fresh := self.new_segment(pool, stream, small, size):
            return fresh
        if pool == 0:
            for lender in sorted(self.lends):
                if lent := self.search(lender, stream, small, size):
                    return lent
        if self.release_enough(pool, stream, small, size) and (fresh := self.new_segment(pool, stream, small, size)):
            return fresh
        if pool and not self.private_releases:
            return None
        self.release_all()
        self.retries += 1
        return self.new_segment(pool, stream, small, size)

    def carve(self, segment, block, size):
        rest, limit = block.size - size, self.s.max_split_size
        split = rest >= 512 if segment.small or self.s.expandable_segments else (limit is None or size < limit) and rest > MIB
        if split and segment.pool not in self.no_split:
            back = Block(block.address + size, rest, "free", born=self.searches.get((segment.pool, segment.small), 0))
            segment.blocks.insert(segment.blocks.index(block) + 1, back)
            block.size = size

    def let_go(self, segment, block):
        block.state = "pending"
        self.allocated -= block.size

    def reusable(self, segment, block):
        if block.state == "pending":
            block.state = "free"
            self.settle(segment, block)
