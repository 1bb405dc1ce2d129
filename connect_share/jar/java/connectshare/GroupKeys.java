package connectshare;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.regex.Pattern;

/**
 * Keys of one cluster group on shared topics: {@code <cluster group id>.<original key>}.
 *
 * <p>The same rule as {@code connect_share/model/keys.py}; one file of test vectors holds the two together. Pure and immutable.
 */
final class GroupKeys {
    /** What kind of records a topic holds. */
    enum TopicType { CONFIG, STATUS, OFFSET }

    private static final String SESSION_KEY = "session-key";
    private static final String[] CONFIG_PREFIXES = {
        "target-state-", "connector-", "task-", "commit-", "restart-connector-", "tasks-fencing-", "logger-cluster-",
    };
    private static final String[] STATUS_PREFIXES = {"status-task-", "status-connector-", "status-topic-"};
    private static final Pattern LEGAL = Pattern.compile("[A-Za-z0-9._-]*");

    private final String prefix;
    private final byte[] prefixBytes;

    /**
     * Takes a cluster group id.
     *
     * @throws IllegalArgumentException it cannot be the prefix of keys; the message says why
     */
    GroupKeys(String clusterGroupId) {
        String objection = objection(clusterGroupId);
        if (objection != null) {
            throw new IllegalArgumentException(objection);
        }
        prefix = clusterGroupId + ".";
        prefixBytes = prefix.getBytes(StandardCharsets.US_ASCII);
    }

    /** Says why a text cannot be a cluster group id; null: it can. */
    static String objection(String text) {
        if (text.isEmpty()) {
            return "it is empty";
        }
        if (!hasLegalCharacters(text)) {
            return "only the characters A-Z a-z 0-9 . _ - are allowed";
        }
        int position = 0;
        while (true) {
            String found = startingAt(CONFIG_PREFIXES, text, position);
            if (found == null) {
                found = startingAt(STATUS_PREFIXES, text, position);
            }
            if (found != null) {
                String where = position == 0 ? "it starts with '" : "after a dot it goes on with '";
                return where + found + "', which is how keys of Connect begin";
            }
            int dot = text.indexOf('.', position);
            if (dot < 0) {
                return null;
            }
            position = dot + 1;
        }
    }

    /** Tells whether all characters are those that names of topics, too, are made of. */
    static boolean hasLegalCharacters(String text) {
        return LEGAL.matcher(text).matches();
    }

    private static String startingAt(String[] prefixes, String text, int position) {
        for (String candidate : prefixes) {
            if (text.startsWith(candidate, position)) {
                return candidate;
            }
        }
        return null;
    }

    /** Tells whether a text, from a position on, is a key that Connect itself writes to such a topic. */
    static boolean isOriginal(TopicType type, String key, int position) {
        switch (type) {
            case CONFIG:
                return startingAt(CONFIG_PREFIXES, key, position) != null
                    || key.length() - position == SESSION_KEY.length() && key.startsWith(SESSION_KEY, position);
            case STATUS:
                return startingAt(STATUS_PREFIXES, key, position) != null;
            default:
                return key.startsWith("[", position);
        }
    }

    /** The same for bytes, as the keys of the offset topic are given. */
    static boolean isOriginal(TopicType type, byte[] key, int position) {
        if (type == TopicType.OFFSET) {
            return key.length > position && key[position] == '[';
        }
        // ISO-8859-1: one character a byte, and the texts that are looked for are ASCII.
        return isOriginal(type, new String(key, position, key.length - position, StandardCharsets.ISO_8859_1), 0);
    }

    /** The group's key for an original one. */
    String prefixed(String original) {
        return prefix + original;
    }

    /** The group's key for an original one. */
    byte[] prefixed(byte[] original) {
        byte[] key = Arrays.copyOf(prefixBytes, prefixBytes.length + original.length);
        System.arraycopy(original, 0, key, prefixBytes.length, original.length);
        return key;
    }

    /** The original key if a key is this group's, else null. */
    String own(TopicType type, String key) {
        return key.startsWith(prefix) && isOriginal(type, key, prefix.length()) ? key.substring(prefix.length()) : null;
    }

    /** The original key if a key is this group's, else null. */
    byte[] own(TopicType type, byte[] key) {
        if (key.length < prefixBytes.length) {
            return null;
        }
        for (int i = 0; i < prefixBytes.length; i++) {
            if (key[i] != prefixBytes[i]) {
                return null;
            }
        }
        return isOriginal(type, key, prefixBytes.length) ? Arrays.copyOfRange(key, prefixBytes.length, key.length) : null;
    }
}
