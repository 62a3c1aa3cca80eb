"""One HTTP connection of a browser: it does not wait for ever, neither for a request nor for a reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rookery.web.guard import answer_headers

MOST_CONNECTIONS = 512
REQUEST_SECONDS = 10.0  # until the head of a request must have arrived
UNREAD_SECONDS = 30.0  # without a reader, after which the connection is ended


class HttpConnection(H11Protocol):
    """uvicorn's connection, with an end for clients that send slowly or never read. If too many are open, that which
    has waited longest for a request is closed."""

    request_seconds = REQUEST_SECONDS
    unread_seconds = UNREAD_SECONDS
    most_connections = MOST_CONNECTIONS
    _request_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._request_timer = self._later(self.request_seconds, transport.abort)
        if len(self.connections) > self.most_connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave no timer behind."""
        self._unset_keepalive_if_required()
        self._stop_request_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request: the rest must follow."""
        super().data_received(data)
        if not self._is_waiting():
            self._stop_request_timer()
        elif self._request_timer is None:
            self._request_timer = self._later(self.request_seconds, self.transport.abort)

    def pause_writing(self) -> None:
        """The client does not read as fast as we send."""
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = self._later(self.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the last bytes to be read."""
        self._since = self.loop.time()
        super().on_response_complete()
        if self.transport.is_closing() and self.transport.get_write_buffer_size() and self._unread_timer is None:
            self._unread_timer = self._later(self.unread_seconds, self.transport.abort)

    def shutdown(self) -> None:
        """The server ends. A stream of events would not: the page connects again when there is a server."""
        is_busy = self.cycle is not None and not self.cycle.response_complete
        super().shutdown()
        if is_busy and self.scope["path"].endswith("/stream"):
            self.transport.abort()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Refuse what is not a handshake here, where the answer gets its headers."""
        given = dict(self.headers)
        if event.method != b"GET" or given.get(b"sec-websocket-version") != b"13" or b"sec-websocket-key" not in given:
            self.send_400_response("This is not a handshake of a WebSocket.")
            return
        self._stop_request_timer()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, if there is no other answer under way."""
        body = b'{"error": "%s"}' % msg.encode("ascii")
        about = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        headers = [*about, (b"connection", b"close"), *answer_headers("/api/")]
        events = (h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(data=body))
        try:
            for event in (*events, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()
        except h11.LocalProtocolError:
            self.transport.abort()
        if self.cycle is not None:  # of a request whose body is malformed: it has been answered here
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _is_waiting(self) -> bool:
        is_open = self in self.connections and not self.transport.is_closing()
        return is_open and (self.cycle is None or self.cycle.response_complete)

    def _make_room(self) -> None:
        others = [other for other in self.connections if isinstance(other, HttpConnection) and other is not self]
        waiting = [other for other in others if other._is_waiting()]
        min(waiting, key=lambda other: other._since, default=self).transport.abort()

    def _later(self, seconds: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, act)

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
