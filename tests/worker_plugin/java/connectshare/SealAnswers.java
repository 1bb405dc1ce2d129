package connectshare;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import connectshare.GroupKeys.TopicType;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Locale;

/**
 * Checks sealing on the shared vectors, then answers cases from standard input, one JSON object a line.
 *
 * <p>{@code {"keys"}}: the ids, or why it is refused. {@code {"keys", "type", "key", "sealed"}}: what was sealed, or the refusal.
 * {@code {"keys", "type", "key", "value", "written_ms"}}: the sealed value. Bytes are hexadecimal.
 */
final class SealAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private SealAnswers() {
    }

    public static void main(String[] arguments) throws Exception {
        for (JsonNode vector : JSON.readTree(new File(arguments[0]))) {
            check(vector);
        }
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(JSON.readTree(line)));
        }
        out.flush();
    }

    private static String answer(JsonNode one) throws GeneralSecurityException {
        KeyRing ring;
        try {
            ring = new KeyRing(one.get("keys").textValue());
        } catch (IllegalArgumentException objection) {
            return objection.getMessage();
        }
        if (!one.has("type")) {
            return ring.ids();
        }
        Seal seal = new Seal(ring);
        TopicType type = TopicType.valueOf(one.get("type").textValue().toUpperCase(Locale.ROOT));
        byte[] key = HEX.parseHex(one.get("key").textValue());
        if (one.has("sealed")) {
            return shown(seal.open(type, key, HEX.parseHex(one.get("sealed").textValue())));
        }
        JsonNode value = one.get("value");
        return HEX.formatHex(seal.seal(type, key, value.isNull() ? null : HEX.parseHex(value.textValue()), one.get("written_ms").longValue()));
    }

    private static String shown(Seal.Opened opened) {
        return opened.refusal != null ? opened.refusal.name()
            : opened.writtenMs + " " + (opened.value == null ? "removal" : HEX.formatHex(opened.value));
    }

    private static void check(JsonNode vector) throws GeneralSecurityException {
        KeyRing ring = new KeyRing(vector.get("keys").textValue());
        Seal seal = new Seal(ring);
        TopicType type = TopicType.valueOf(vector.get("kind").textValue().toUpperCase(Locale.ROOT));
        byte[] key = Base64.getDecoder().decode(vector.get("key").textValue());
        byte[] value = vector.get("value").isNull() ? null : Base64.getDecoder().decode(vector.get("value").textValue());
        byte[] sealed = HEX.parseHex(vector.get("sealed").textValue());
        long writtenMs = vector.get("written_ms").longValue();
        byte[] made = seal.sealed(ring.sealingId, type, key, value, writtenMs, HEX.parseHex(vector.get("iv").textValue()));
        Seal.Opened opened = seal.open(type, key, sealed);
        if (!Arrays.equals(made, sealed) || !Arrays.equals(opened.value, value) || opened.writtenMs != writtenMs || opened.refusal != null) {
            throw new AssertionError(vector);
        }
        for (int bit = 0; bit < sealed.length * 8; bit++) {
            byte[] changed = sealed.clone();
            changed[bit / 8] ^= (byte) (1 << bit % 8);
            Refusal wanted = bit < 8 ? Refusal.MALFORMED : bit < 40 ? Refusal.UNKNOWN_KEY : Refusal.FORGED;
            if (seal.open(type, key, changed).refusal != wanted) {
                throw new AssertionError("bit " + bit + " of " + vector);
            }
        }
    }
}
