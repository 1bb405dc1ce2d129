package connectshare;

import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.crypto.spec.SecretKeySpec;

/**
 * Keys of a cluster group by their ids: the first one seals, all of them open.
 *
 * <p>The same rule as {@code connect_share/sealing/key_ring.py}. Nothing of a key is ever in a text.
 */
final class KeyRing {
    static final int KEY_BYTES = 32;
    private static final long LARGEST_ID = 0xffffffffL;
    private static final Pattern ID = Pattern.compile("[1-9][0-9]{0,9}");
    private static final Pattern KEY = Pattern.compile("[A-Za-z0-9+/]{43}=");

    /** The keys as ciphers take them, by id (its 32 bits). */
    final Map<Integer, SecretKeySpec> keys = new LinkedHashMap<>();
    final int sealingId;

    /**
     * Reads {@code <id>:<base64 of 32 bytes>[,...]}.
     *
     * @throws IllegalArgumentException names the entry, by its position, and what is wrong with it; never what it holds
     */
    KeyRing(String text) {
        String[] entries = text.split(",", -1);
        sealingId = add(1, entries[0].trim());
        for (int i = 1; i < entries.length; i++) {
            add(i + 1, entries[i].trim());
        }
    }

    private int add(int position, String entry) {
        if (entry.isEmpty()) {
            throw refused(position, "is empty; it has to be <id>:<base64 of 32 bytes>");
        }
        int colon = entry.indexOf(':');
        if (colon < 0) {
            throw refused(position, "has no colon; it has to be <id>:<base64 of 32 bytes>");
        }
        String number = entry.substring(0, colon);
        if (!ID.matcher(number).matches() || Long.parseLong(number) > LARGEST_ID) {
            throw refused(position, "has no key id before the colon: a number from 1 to " + LARGEST_ID + ", without leading zeros");
        }
        String encoded = entry.substring(colon + 1);
        if (!KEY.matcher(encoded).matches()) {
            throw refused(position, "has no base64 of " + KEY_BYTES + " bytes behind the colon: 43 characters and one =");
        }
        byte[] key = Base64.getDecoder().decode(encoded);
        // Spare bits: a character was changed.
        if (!Base64.getEncoder().encodeToString(key).equals(encoded)) {
            throw refused(position, "has no whole base64 behind the colon: its last character is none that 32 bytes give");
        }
        int id = (int) Long.parseLong(number);
        if (keys.putIfAbsent(id, new SecretKeySpec(key, "AES")) != null) {
            throw refused(position, "has key id " + number + " again; an id names one key for ever");
        }
        return id;
    }

    private static IllegalArgumentException refused(int position, String why) {
        return new IllegalArgumentException("entry " + position + " of the keys " + why);
    }

    /** The ids, in the order of the text. */
    String ids() {
        return keys.keySet().stream().map(Integer::toUnsignedString).collect(Collectors.joining(", "));
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof KeyRing && sealingId == ((KeyRing) other).sealingId && keys.equals(((KeyRing) other).keys);
    }

    @Override
    public int hashCode() {
        return keys.keySet().hashCode();
    }

    @Override
    public String toString() {
        return "KeyRing of " + ids();
    }
}
