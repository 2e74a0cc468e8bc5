"""What happened, in a paragraph or two."""
import re

from gpupool_words import duration, plural, size

STATES = {'running': 'It is running.', 'ended': 'It ended by itself.',
          'killed': 'It did not end by itself: it was killed, or crashed.',
          'elsewhere': 'Whether it still runs cannot be seen from here.'}


def of_page(page):
    """The paragraphs between the title and the first heading of a page that
    the library wrote, each on one line."""
    paragraphs, lines = [], page.split('\n')[1:]
    words = []
    for line, below in zip(lines, lines[1:] + ['']):
        if re.fullmatch('-+', below) and line:
            break
        if line.strip():
            words.append(line.strip())
        elif words:
            paragraphs.append(' '.join(words))
            words = []
    if words:
        paragraphs.append(' '.join(words))
    return paragraphs


def refused(report):
    """The paragraph of a report that was written for lack of memory."""
    if report.get('oom_answer'):
        return report['oom_answer']
    words = ['%s asked for %s on device %d and was refused.' % (
        report.get('oom_call') or 'The program', size(report['oom_bytes']),
        report.get('oom_device', 0))]
    get = report.get
    if get('oom_limit_bytes') is not None:
        words.append('This process may take %s there and holds %s.' % (
            size(get('oom_limit_bytes')), size(get('oom_held_bytes'))))
    if get('oom_total_bytes') is not None:
        words.append('The device has %s, %s of it free.' % (
            size(get('oom_total_bytes')), size(get('oom_free_bytes'))))
    if get('oom_reserved_bytes') is not None:
        words.append(
            "This process's pool has %s reserved: %s allocated and %s cached, "
            'where the largest free range is %s.' % (
                size(get('oom_reserved_bytes')),
                size(get('oom_allocated_bytes')),
                size(get('oom_cached_bytes')),
                size(get('oom_largest_free_bytes'))))
    return ' '.join(filter(None, words))


def summary(report):
    get = report.get
    words = ['In %s the program held at most %s of pooled device memory at '
             'one time; the most that was reserved for it was %s.' % (
                 duration(get('elapsed_ns', 0)),
                 size(get('peak_allocated_bytes')),
                 size(get('peak_reserved_bytes')))]
    if get('live_allocations'):
        words.append('%s of %s together %s.' % (
            plural(get('live_allocations'), 'allocation'),
            size(get('allocated_bytes')),
            'was live' if get('live_allocations') == 1 else 'were live'))
    if get('num_ooms'):
        words.append('%s refused for lack of memory.' % (
            '1 request was' if get('num_ooms') == 1
            else plural(get('num_ooms'), 'request') + ' were'))
    return ' '.join(words)


def recorded(report):
    """How a process ended that wrote no report, and what is known of it."""
    words = ['No report of this process was read, but its last events are '
             'there.', STATES.get(report.get('state'), '')]
    if report.get('events'):
        words.append('%s from %s after its start on.' % (
            plural(report['events'], 'event'),
            duration(report.get('first_event_elapsed_ns', 0))))
    if 'oom_bytes' in report:
        words.append('The last request that was refused asked for %s on '
                     'device %d, %s after the start.' % (
                         size(report['oom_bytes']), report['oom_device'],
                         duration(report['oom_elapsed_ns'])))
    return ' '.join(filter(None, words))


def paragraphs(report, page=None):
    """The answer first."""
    if page:
        found = of_page(page)
        if found:
            return found
    if report['reason'] == 'record':
        return [recorded(report), summary(report)]
    found = [summary(report)]
    if 'oom_bytes' in report:
        found.insert(0, refused(report))
    return found
