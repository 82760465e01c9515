"""Keys and certificates: a certificate authority, the server's certificate, and a key for each party."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from limbeck.atomic_files import write_secret
from limbeck.errors import LimbeckError

AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
SKEW = timedelta(minutes=5)  # tolerance for clocks that differ


def write_authority(folder: Path) -> None:
    """Write `ca.pem` and `ca.key`: the authority that signs the server's certificate."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = _named("Limbeck consortium")
    certificate = (
        _certificate(name, name, key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_signs_certificates(), critical=True)
        .sign(key, hashes.SHA384())
    )
    write_secret(folder / "ca.key", _private_pem(key))
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_server_certificate(folder: Path, names: Sequence[str], days: float = SERVER_DAYS) -> None:
    """Write `server.pem` and `server.key`, signed by the authority of the folder.

    Parameters
    ----------
    folder : Path
        The server's folder.
    names : sequence of str
        Host names and addresses of the server.
    days : float
        Validity in days.
    """
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    authority = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP384R1())
    certificate = (
        _certificate(_named(names[0]), authority.subject, key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
        .sign(signer, hashes.SHA384())
    )
    write_secret(folder / "server.key", _private_pem(key))
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_party_key(folder: Path, name: str) -> Path:
    """Write a party's key pair in OpenSSH's format.

    Parameters
    ----------
    folder : Path
        The party's folder; it gets `key`, which never leaves the party.
    name : str
        Name of the party.

    Returns
    -------
    Path
        The public key NAME.pub, for the coordinator.
    """
    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    write_secret(folder / "key", secret)
    public = folder / f"{name}.pub"
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH) + b"\n"
    )
    return public


def read_party_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a party's private key."""
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError) as error:
        raise LimbeckError(f"{path} is not a party's private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise LimbeckError(f"{path} is not a party's private key: it must be an elliptic-curve key")
    return key


def read_public_key(path: Path) -> bytes:
    """Read a party's public key, which `limbeck party init` wrote, and return it as PEM."""
    try:
        data = path.read_bytes()
        key = serialization.load_ssh_public_key(data)
    except (OSError, ValueError) as error:
        raise LimbeckError(f"{path} is not a party's public key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise LimbeckError(f"{path} is not a party's public key: EC P-384 in OpenSSH's format is needed")
    return public_bytes(key)


def public_bytes(key: ec.EllipticCurvePublicKey) -> bytes:
    """Public key as PEM, as Flower stores it."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def expires(certificate: Path) -> datetime:
    """End of a certificate's validity (UTC)."""
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    ends = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - SKEW)
        .not_valid_after(ends)
    )


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
