package connectshare;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import connectshare.GroupKeys.TopicType;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;

/**
 * Checks the key rule on the shared vectors, then answers cases from standard input, one JSON object a line.
 *
 * <p>Case: {@code {"type", "group", "key_hex"}}. Answer: the objection to the group id, or {@code own <hex>} / {@code foreign},
 * then {@code original} if the key as it is is one of Connect's.
 */
final class KeyAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();

    private KeyAnswers() {
    }

    public static void main(String[] arguments) throws Exception {
        vectors(JSON.readTree(new File(arguments[0])));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode one = JSON.readTree(line);
            out.println(answer(type(one), one.get("group").textValue(), bytes(one, "key")));
        }
        out.flush();
    }

    private static String answer(TopicType type, String group, byte[] key) {
        String objection = GroupKeys.objection(group);
        if (objection != null) {
            return objection;
        }
        GroupKeys keys = new GroupKeys(group);
        byte[] own = keys.own(type, key);
        String text = new String(key, StandardCharsets.UTF_8);
        agree(keys.own(type, text), own == null ? null : new String(own, StandardCharsets.UTF_8), text);
        boolean original = GroupKeys.isOriginal(type, key, 0);
        agree(GroupKeys.isOriginal(type, text, 0), original, text);
        if (own != null) {
            agree(Arrays.equals(keys.prefixed(own), key), true, text);
        }
        return (own == null ? "foreign" : "own " + hex(own)) + (original ? " original" : "");
    }

    private static void vectors(JsonNode vectors) {
        for (JsonNode id : vectors.get("legal_ids")) {
            agree(GroupKeys.objection(id.textValue()), null, id);
        }
        for (JsonNode entry : vectors.get("illegal_ids")) {
            String words = switch (entry.get("reason").textValue()) {
                case "empty" -> "it is empty";
                case "characters" -> "only the characters A-Z a-z 0-9 . _ - are allowed";
                case "begins" -> "it starts with '";
                case "after_dot" -> "after a dot it goes on with '";
                default -> throw new AssertionError("no such reason: " + entry);
            };
            String objection = GroupKeys.objection(entry.get("id").textValue());
            agree(objection != null && objection.startsWith(words), true, entry);
        }
        for (JsonNode entry : vectors.get("keys")) {
            byte[] own = bytes(entry, "own");
            String answer = answer(type(entry), entry.get("group").textValue(), bytes(entry, "key")).replace(" original", "");
            agree(answer, own == null ? "foreign" : "own " + hex(own), entry);
        }
    }

    private static TopicType type(JsonNode entry) {
        return TopicType.valueOf(entry.get("type").textValue().toUpperCase(Locale.ROOT));
    }

    private static byte[] bytes(JsonNode entry, String name) {
        JsonNode digits = entry.get(name + "_hex");
        if (digits == null) {
            JsonNode text = entry.get(name);
            return text.isNull() ? null : text.textValue().getBytes(StandardCharsets.UTF_8);
        }
        String hex = digits.textValue();
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static String hex(byte[] bytes) {
        return bytes.length == 0 ? "" : String.format("%0" + 2 * bytes.length + "x", new BigInteger(1, bytes));
    }

    private static void agree(Object found, Object expected, Object about) {
        if (!java.util.Objects.equals(found, expected)) {
            throw new AssertionError(about + ": " + found + " instead of " + expected);
        }
    }
}
