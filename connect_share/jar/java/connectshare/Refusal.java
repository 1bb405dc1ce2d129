package connectshare;

/** Why a record of the group's own is not accepted; the same as in {@code connect_share/sealing/cipher.py}. */
enum Refusal {
    PLAIN("its value is not sealed, whoever wrote it"),
    TOMBSTONE("it is a tombstone: only a sealed removal removes"),
    NO_KEYS("its value is sealed, and this worker has no keys"),
    MALFORMED("its value begins like a sealed one, and is none"),
    UNKNOWN_KEY("its value is sealed with a key that this worker does not have"),
    FORGED("its value was not sealed for this place with a key of the group, or was changed"),
    REPLAYED("its value is older than the newest one of this key");

    final String text;

    Refusal(String text) {
        this.text = text;
    }
}
