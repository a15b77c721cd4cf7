"""The connection to a fault agent, as the engine's client hands it out."""

import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_STDOUT = 1


def agent_stream(answer: Callable[[str], str | None]) -> socket.SocketIO:
    """Return the harness's end of a connection; the other end answers until its input ends.

    Args:
        answer: given `VERB JSON`, returns the answer, JSON; None ends the connection instead.
    """
    ours, theirs = socket.socketpair()
    turn = threading.Lock()

    def carry_out(number: str, request: str) -> None:
        said = answer(request)
        with turn:
            if said is None:
                theirs.shutdown(socket.SHUT_RDWR)
                return
            text = f"{number} {said}\n".encode()
            # The engine cuts where it likes.
            for part in (text[:3], text[3:]):
                theirs.sendall(struct.pack(">BxxxL", _STDOUT, len(part)) + part)

    def serve() -> None:
        with theirs, theirs.makefile("rb") as requests, ThreadPoolExecutor() as hands:
            for line in requests:
                number, _, request = line.decode().rstrip("\n").partition(" ")
                hands.submit(carry_out, number, request)

    threading.Thread(target=serve, daemon=True).start()
    stream = ours.makefile("rb", buffering=0)
    ours.close()
    return stream
