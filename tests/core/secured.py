"""A service with TLS on this machine, and its certificates, signed by an authority that the test creates."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from http_server import listening, port_of

DAY = datetime.timedelta(days=1)
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Authority:
    """Signs certificates; ``trusting`` is a client's context that trusts it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of the tests")])
        self._file = folder / "authority.pem"
        own = self._signed(self._name, self._key, (-1, 1), None)
        self._file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    @property
    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._file))

    def serving(self, host: str, days: tuple[float, float] = (-1, 1)) -> ssl.SSLContext:
        """A service's context, its certificate for ``host``, good between these days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        file = self._folder / f"{host}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        signed = self._signed(name, key, days, host)
        file.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[float, float], host: str | None
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        building = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + days[0] * DAY)
            .not_valid_after(now + days[1] * DAY)
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        )
        if host:
            names = x509.SubjectAlternativeName([x509.DNSName(host)])
            building = building.add_extension(names, critical=False)
        return building.sign(self._key, hashes.SHA256())


@asynccontextmanager
async def service(context: ssl.SSLContext) -> AsyncIterator[int]:
    """The port of a service that answers every request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(ANSWER)
            await writer.drain()

    async with listening(serve, context) as server:
        yield port_of(server)
