"""Which call stack allocated a block: told in a report for the blocks of its
layouts, if it was made with stacks:sample or stacks:all.

Of a process that was killed there are only its events, which have no stacks.
"""
import bisect

NOT_KNOWN = 0  # a site


class Sites:
    """Of one device."""

    def __init__(self, story, device):
        found = []
        for pool in story.report['pools']:
            layout = pool.get('layout')
            if pool['device'] != device or not layout:
                continue
            blocks = layout['blocks']
            found.extend(
                row + (layout['unix_ns'],) for row in zip(
                    blocks['address'], blocks['bytes'], blocks['requested'],
                    blocks['blocks'], blocks.get('site', ())) if row[-1])
        found.sort()
        self.rows = found
        self.starts = [row[0] for row in found]
        self.freed = {event.address: event.time
                      for event in story.events(device)
                      if event.kind == 'free'} if found else {}

    def of(self, block):
        """The site of a block that is live after all events, a number of the
        report's block_sites; NOT_KNOWN: nobody knows."""
        at = bisect.bisect_right(self.starts, block.address) - 1
        if at < 0:
            return NOT_KNOWN
        start, size, requested, blocks, site, unix_ns = self.rows[at]
        end = block.address + block.bytes
        if blocks > 1:  # neighbours that all are of that site
            same = end <= start + size
        else:
            same = ((block.address, block.bytes, block.requested)
                    == (start, size, requested))
        # Freed since the layout was begun: this is another one.
        if not same or self.freed.get(block.address, 0) >= unix_ns:
            return NOT_KNOWN
        return site


def stacks(report, tell):
    """Each site's frames, innermost first, in the words of tell(frame);
    NOT_KNOWN has none. What a frame is told as stands in all its sites."""
    sites = report.get('block_sites') or {'frames': (), 'sites': ()}
    frames = [tell(frame) for frame in sites['frames']]
    return [[]] + [[frames[place] for place in site]
                   for site in sites['sites'][1:]]


def misplaced(report):
    """Whether a number in it stands for nothing."""
    told = report.get('block_sites') or {'frames': (), 'sites': ()}
    frames = max((place for site in told['sites'] for place in site),
                 default=-1)
    sites = max((max(pool['layout']['blocks'].get('site', ()), default=-1)
                 for pool in report['pools'] if pool.get('layout')),
                default=-1)
    return frames >= len(told['frames']) or sites >= len(told['sites'])
