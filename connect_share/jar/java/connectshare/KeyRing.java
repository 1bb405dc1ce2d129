package connectshare;

import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;
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

    private final Map<Integer, byte[]> keys = new LinkedHashMap<>();
    final int sealingId;

    /**
     * Reads {@code <id>:<base64 of 32 bytes>[,...]}.
     *
     * @throws IllegalArgumentException names the entry, by its position, and what is wrong with it; never what it holds
     */
    KeyRing(String text) {
        int position = 0;
        int first = 0;
        for (String entry : text.split(",", -1)) {
            position++;
            int id = add(position, entry.trim());
            first = position == 1 ? id : first;
        }
        sealingId = first;
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
        if (keys.putIfAbsent(id, key) != null) {
            throw refused(position, "has key id " + number + " again; an id names one key for ever");
        }
        return id;
    }

    private static IllegalArgumentException refused(int position, String why) {
        return new IllegalArgumentException("entry " + position + " of the keys " + why);
    }

    /** The keys as ciphers take them, by id (its 32 bits). */
    Map<Integer, SecretKeySpec> secrets() {
        Map<Integer, SecretKeySpec> secrets = new LinkedHashMap<>();
        keys.forEach((id, key) -> secrets.put(id, new SecretKeySpec(key, "AES")));
        return secrets;
    }

    /** The ids, in the order of the text. */
    String ids() {
        StringBuilder ids = new StringBuilder();
        for (int id : keys.keySet()) {
            ids.append(ids.length() == 0 ? "" : ", ").append(Integer.toUnsignedString(id));
        }
        return ids.toString();
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof KeyRing)) {
            return false;
        }
        KeyRing that = (KeyRing) other;
        if (sealingId != that.sealingId || !keys.keySet().equals(that.keys.keySet())) {
            return false;
        }
        for (Map.Entry<Integer, byte[]> entry : keys.entrySet()) {
            if (!Arrays.equals(entry.getValue(), that.keys.get(entry.getKey()))) {
                return false;
            }
        }
        return true;
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
