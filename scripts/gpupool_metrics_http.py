"""Serves the metrics to Prometheus."""
import http.server
import socket
import sys

import gpupool_metrics
from gpupool_paths import Problem

INDEX = (b'<!doctype html><title>gpupool</title>'
         b'<p>gpupool: <a href="/metrics">metrics</a></p>\n')


def style_of(accept):
    """The format that an Accept header prefers; text where it prefers none."""
    best = {}
    for part in accept.lower().split(','):
        media, *parameters = [word.strip() for word in part.split(';')]
        quality, version = 1.0, ''
        for parameter in parameters:
            key, _, value = parameter.partition('=')
            if key == 'q':
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
            elif key == 'version':
                version = value.strip('"')
        if media == 'application/openmetrics-text':
            # 0.0.1 differs from 1.0.0 in nothing that is used here.
            style = (gpupool_metrics.OPEN if version in ('', '0.0.1', '1.0.0')
                     else None)
        elif media in ('text/plain', 'text/*', '*/*'):
            style = gpupool_metrics.TEXT
        else:
            continue
        if style:
            best[style] = max(best.get(style, 0.0), quality)
    if best.get(gpupool_metrics.OPEN, 0.0) > best.get(gpupool_metrics.TEXT,
                                                      0.0):
        return gpupool_metrics.OPEN
    return gpupool_metrics.TEXT


class Handler(http.server.BaseHTTPRequestHandler):
    server_version = 'gpupool'
    sys_version = ''
    protocol_version = 'HTTP/1.1'
    timeout = 10  # for a client that sends nothing

    def do_GET(self):
        path = self.path.split('?', 1)[0]
        if path == '/':
            self.answer(200, 'text/html; charset=utf-8', INDEX)
        elif path == '/metrics':
            self.answer_metrics()
        else:
            self.answer(404, 'text/plain; charset=utf-8',
                        b'not found; metrics are at /metrics\n')

    do_HEAD = do_GET

    def answer_metrics(self):
        style = style_of(self.headers.get('Accept', ''))
        try:
            body = gpupool_metrics.page(style)
        except Problem as problem:
            self.answer(503, 'text/plain; charset=utf-8',
                        ('%s\n' % problem).encode('utf-8', 'replace'))
            return
        self.answer(200, gpupool_metrics.CONTENT_TYPE[style],
                    body.encode('utf-8', 'replace'))

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.send_header('Vary', 'Accept')
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def log_message(self, format, *args):
        pass  # scrapes are not worth a line


class Server(http.server.ThreadingHTTPServer):

    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def parse(text):
    """(host, port) of '127.0.0.1:9835', '[::1]:9835', or '9835', which is on
    127.0.0.1."""
    host, colon, port = text.rpartition(':')
    if host.startswith('[') and host.endswith(']'):
        host = host[1:-1]
    elif ':' in host:
        colon = host = ''
    if not colon and text.isdigit():
        host = '127.0.0.1'
    if not host or not port.isdigit() or int(port) > 65535:
        raise Problem('--listen %s: accepted are ADDRESS:PORT as '
                      '127.0.0.1:9835 or [::1]:9835, and a port alone'
                      % text, 2)
    return host, int(port)


def serve(text):
    host, port = parse(text)
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM)[0]
        kind = type('Server', (Server,), {'address_family': family})
        server = kind(address[:2], Handler)
    except OSError as error:
        raise Problem('cannot listen on %s: %s' % (text, error.strerror))
    where, port = server.server_address[:2]
    print('gpupool: http://%s:%d/metrics' % (
        '[%s]' % where if ':' in where else where, port), file=sys.stderr,
        flush=True)
    with server:
        server.serve_forever(0.2)
    return 0
