"""``ssl.*`` of the Java clients in librdkafka's terms."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connect_share.worker_config.client_settings import refusal

_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_HOST_NAME_CHECK: Final = "ssl.endpoint.identification.algorithm"
_TLS_1_2: Final = frozenset({"TLS", "TLSv1.2"})
_TLS_1_3: Final = "TLSv1.3"
# librdkafka has no setting for the lowest version. These suites are of TLS 1.2 only, and need a key that no client here
# has: a broker that speaks 1.2 is refused, 1.3 has suites of its own.
_NO_TLS_1_2: Final = "PSK"
_KEYTOOL_TIMEOUT_S: Final = 30
_STORE_LIMIT_BYTES: Final = 4 * 1024 * 1024
_PEM_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----")
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_JVM_ALGORITHMS: Final = frozenset(
    {"", "PKIX", "SunX509", "SunPKIX", "NewSunX509", "X509", "X.509", "IbmX509", "IbmPKIX"}
)
# Java code cannot run inside librdkafka; leaving these out silently could weaken what the operator wanted.
_REFUSED: Final = {
    "ssl.cipher.suites": "leave it out: OpenSSL names its cipher suites differently",
    "ssl.provider": "leave it out: librdkafka uses OpenSSL",
    "ssl.engine.factory.class": "use ssl.truststore.* and ssl.keystore.* instead",
    "ssl.secure.random.implementation": "leave it out: librdkafka uses OpenSSL",
    "security.providers": "leave it out: librdkafka uses OpenSSL",
}


def translate_tls(java: Mapping[str, str]) -> dict[str, str]:
    """Translate trust store, key store, TLS versions and host name check.

    Trust stores may be PEM, PKCS12 or JKS (the last two are read with Java's keytool and handed over in memory), key
    stores PEM or PKCS12.

    Raises:
        ConfigError: names the property and the remedy.
    """
    for name, remedy in _REFUSED.items():
        if java.get(name, "").strip():
            raise refusal(name, f"is not supported by this client; {remedy}")
    for name in ("ssl.trustmanager.algorithm", "ssl.keymanager.algorithm"):
        if java.get(name, "").strip() not in _JVM_ALGORITHMS:
            raise refusal(name, "is not supported by this client; leave it out")
    out: dict[str, str] = {}
    for name in ("ssl.enabled.protocols", "ssl.protocol"):
        wanted = {part.strip() for part in java.get(name, "").split(",") if part.strip()}
        if wanted and not wanted & {*_TLS_1_2, _TLS_1_3}:
            raise refusal(name, ": this client speaks TLS 1.2 and 1.3 only")
        if name == "ssl.enabled.protocols" and wanted and not wanted & _TLS_1_2:
            out["ssl.cipher.suites"] = _NO_TLS_1_2
    algorithm = java.get(_HOST_NAME_CHECK)
    if algorithm is not None:
        out[_HOST_NAME_CHECK] = _host_name_check(algorithm)
    _translate_truststore(java, out)
    _translate_keystore(java, out)
    return out


def _host_name_check(algorithm: str) -> str:
    """Only an empty value switches it off, as in Java, which refuses every broker for a word that it does not know."""
    if not algorithm:
        return "none"
    if algorithm.strip().lower() == "https":
        return "https"
    raise refusal(
        _HOST_NAME_CHECK, "has to be https, which is the default, or empty, which switches the check of host names off"
    )


def _store_kind(name: str, location: str) -> str:
    """Look at the bytes: ``ssl.truststore.type`` is often left at Java's default, JKS, which reads PKCS12 too."""
    try:
        # Reading a named pipe would block, and a connector's configuration can name one.
        if not stat.S_ISREG(Path(location).stat().st_mode):
            raise refusal(name, f": {location} is not a regular file")
        with Path(location).open("rb") as file:
            content = file.read(_STORE_LIMIT_BYTES)
    except OSError as exc:
        raise refusal(name, f": cannot read {location}: {exc.strerror or exc}") from exc
    if content.startswith(_JKS_MAGIC):
        return "JKS"
    if content.startswith(b"\x30"):
        return "PKCS12"
    if b"-----BEGIN " in content:
        return "PEM"
    raise refusal(name, f": {location} is neither PEM nor PKCS12 nor JKS")


def _translate_truststore(java: Mapping[str, str], out: dict[str, str]) -> None:
    certificates = java.get("ssl.truststore.certificates", "").strip()
    location = java.get("ssl.truststore.location", "").strip()
    if certificates:
        out["ssl.ca.pem"] = _pem("ssl.truststore.certificates", certificates)
    elif not location and java.get("ssl.truststore.password", ""):
        # As in Java: otherwise a misspelled location would trust all authorities of the machine.
        raise refusal("ssl.truststore.password", "is given without ssl.truststore.location")
    elif location:
        if _store_kind("ssl.truststore.location", location) == "PEM":
            out["ssl.ca.location"] = location
        else:
            out["ssl.ca.pem"] = _certificates_of(location, java.get("ssl.truststore.password", ""))


def _translate_keystore(java: Mapping[str, str], out: dict[str, str]) -> None:
    chain, key = java.get("ssl.keystore.certificate.chain", "").strip(), java.get("ssl.keystore.key", "").strip()
    location = java.get("ssl.keystore.location", "").strip()
    if chain or key:
        for name, text in (("ssl.keystore.certificate.chain", chain), ("ssl.keystore.key", key)):
            if not text:
                raise refusal(name, "is missing; chain and key are given together")
        out["ssl.certificate.pem"] = _pem("ssl.keystore.certificate.chain", chain)
        out["ssl.key.pem"] = _pem("ssl.keystore.key", key)
    elif location:
        kind = _store_kind("ssl.keystore.location", location)
        if kind == "PEM":
            out["ssl.certificate.location"] = out["ssl.key.location"] = location
        elif kind == "PKCS12":
            out["ssl.keystore.location"] = location
            out["ssl.keystore.password"] = java.get("ssl.keystore.password", "")
        else:
            raise refusal(
                "ssl.keystore.location",
                f": {location} is a JKS store, which this client cannot read; convert it with: "
                f"keytool -importkeystore -srckeystore {location} -destkeystore {location}.p12 -deststoretype PKCS12",
            )
    if java.get("ssl.key.password", "") and "ssl.keystore.location" not in out:
        out["ssl.key.password"] = java["ssl.key.password"]


def _pem(name: str, text: str) -> str:
    """Break base64 into lines as OpenSSL wants it; Java takes any white space, also none (continued lines)."""
    if "-----BEGIN " not in text:
        raise refusal(name, "has no PEM block (-----BEGIN ...-----)")

    def lines(match: re.Match[str]) -> str:
        base64 = "".join(match.group(2).split())
        body = "\n".join(base64[start : start + 64] for start in range(0, len(base64), 64))
        return f"-----BEGIN {match.group(1)}-----\n{body}\n-----END {match.group(1)}-----\n"

    return _PEM_BLOCK.sub(lines, text).rstrip() + "\n"


def _keytool() -> str | None:
    home = os.environ.get("JAVA_HOME")
    candidate = shutil.which("keytool", path=str(Path(home) / "bin")) if home else None
    return candidate or shutil.which("keytool")


def _certificates_of(location: str, password: str) -> str:
    """Return what Java trusts with a JKS or PKCS12 store as PEM, with the password out of sight of ``ps``.

    Source: ``sun.security.validator.TrustStoreUtil``.
    """
    name = "ssl.truststore.location"
    remedy = (
        f"convert it with: keytool -exportcert -rfc -alias ALIAS -keystore {location} >> ca.pem, for each ALIAS in it, "
        f"then set ssl.truststore.type=PEM and ssl.truststore.location=ca.pem"
    )
    keytool = _keytool()
    if keytool is None:
        raise refusal(name, f": {location} can only be read with Java's keytool, which was not found; {remedy}")
    # Otherwise headings are in the language of the machine.
    command = [keytool, "-J-Duser.language=en", "-list", "-rfc", "-keystore", location]
    command += ["-storepass:env", "CONNECT_SHARE_STORE_PASSWORD"]
    environment = {**os.environ, "CONNECT_SHARE_STORE_PASSWORD": password or "changeit"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=_KEYTOOL_TIMEOUT_S, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise refusal(name, f": keytool did not run on {location}; {remedy}") from exc
    # Of a key entry Java trusts only the key's own certificate, which is the first one.
    entries = re.split(r"^Alias name: ", done.stdout, flags=re.MULTILINE)[1:]
    found = [block.group() for entry in entries if (block := _CERTIFICATE.search(entry))]
    if done.returncode != 0 or not found:
        raise refusal(name, f": keytool found no certificate in {location}; check ssl.truststore.password")
    return "".join(f"{block}\n" for block in found)
