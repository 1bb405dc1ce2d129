package connectshare;

import connectshare.GroupKeys.TopicType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * Seals and opens single values, with AES-256-GCM in Tink's wire format.
 *
 * <p>The same as {@code connect_share/sealing/cipher.py}, where the format is; one file of test vectors holds the two together.
 * Thread-safe.
 */
final class Seal {
    private static final byte VERSION = 1;
    private static final int IV_BYTES = 12;
    private static final int HEAD_BYTES = 1 + 4 + IV_BYTES;
    private static final int TAG_BITS = 128;
    private static final int WRITTEN_BYTES = 1 + 8;
    private static final int LEAST_BYTES = HEAD_BYTES + WRITTEN_BYTES + TAG_BITS / 8;
    private static final byte VALUE = 0;
    private static final byte REMOVAL = 1;
    private static final Map<TopicType, byte[]> CONTEXTS = new EnumMap<>(TopicType.class);

    static {
        for (TopicType type : TopicType.values()) {
            String context = "connect-share/sealed/1\0" + type.name().toLowerCase(Locale.ROOT) + "\0";
            CONTEXTS.put(type, context.getBytes(StandardCharsets.US_ASCII));
        }
    }

    private final Map<Integer, SecretKeySpec> keys;
    private final int sealingId;
    private final SecureRandom random = new SecureRandom();

    /** What came out of a sealed value: what was sealed, or why that is not known. */
    static final class Opened {
        /** Null if it could be opened. */
        final Refusal refusal;
        /** Null is a removal, or nothing. */
        final byte[] value;
        final long writtenMs;

        private Opened(Refusal refusal, byte[] value, long writtenMs) {
            this.refusal = refusal;
            this.value = value;
            this.writtenMs = writtenMs;
        }
    }

    /**
     * Takes the keys, and tries whether this Java can seal with them.
     *
     * @throws GeneralSecurityException it cannot
     */
    Seal(KeyRing ring) throws GeneralSecurityException {
        keys = ring.keys;
        sealingId = ring.sealingId;
        byte[] key = {0};
        for (int id : keys.keySet()) {
            byte[] sealed = sealed(id, TopicType.CONFIG, key, key, 1, iv());
            if (open(TopicType.CONFIG, key, sealed).refusal != null) {
                throw new GeneralSecurityException("what was sealed cannot be opened");
            }
        }
    }

    /** Tells whether a value claims to be sealed: nothing that Connect writes begins so. */
    static boolean isSealed(byte[] value) {
        return value.length > 0 && value[0] == VERSION;
    }

    /** The id of the key that a value of full length claims to be sealed with. */
    static String keyId(byte[] sealed) {
        return Integer.toUnsignedString(ByteBuffer.wrap(sealed).getInt(1));
    }

    /** The IV of a sealed value, by which it is told from all others. */
    static ByteBuffer ivOf(byte[] sealed) {
        return ByteBuffer.wrap(Arrays.copyOfRange(sealed, HEAD_BYTES - IV_BYTES, HEAD_BYTES));
    }

    /** Returns a value, or the removal for null, as it goes to the topic under this whole key. */
    byte[] seal(TopicType type, byte[] wireKey, byte[] value, long writtenMs) throws GeneralSecurityException {
        return seal(sealingId, type, wireKey, value, writtenMs);
    }

    /** The same with the key of this id. */
    byte[] seal(int id, TopicType type, byte[] wireKey, byte[] value, long writtenMs) throws GeneralSecurityException {
        return sealed(id, type, wireKey, value, writtenMs, iv());
    }

    private byte[] iv() {
        byte[] iv = new byte[IV_BYTES];
        random.nextBytes(iv);
        return iv;
    }

    /** Seals with this IV, which must never be used twice with one key. */
    byte[] sealed(int id, TopicType type, byte[] wireKey, byte[] value, long writtenMs, byte[] iv) throws GeneralSecurityException {
        byte[] content = value == null ? new byte[0] : value;
        ByteBuffer plain = ByteBuffer.allocate(WRITTEN_BYTES + content.length);
        plain.put(value == null ? REMOVAL : VALUE).putLong(writtenMs).put(content);
        byte[] sealed = new byte[LEAST_BYTES + content.length];
        ByteBuffer.wrap(sealed).put(VERSION).putInt(id).put(iv);
        cipher(Cipher.ENCRYPT_MODE, id, type, wireKey, iv).doFinal(plain.array(), 0, plain.capacity(), sealed, HEAD_BYTES);
        return sealed;
    }

    /**
     * Returns what was sealed for this whole key, or why that is not known.
     *
     * @throws GeneralSecurityException this Java cannot do what it could at start; nothing that a value may hold leads there
     */
    Opened open(TopicType type, byte[] wireKey, byte[] sealed) throws GeneralSecurityException {
        if (sealed.length < LEAST_BYTES || !isSealed(sealed)) {
            return new Opened(Refusal.MALFORMED, null, 0);
        }
        ByteBuffer head = ByteBuffer.wrap(sealed);
        head.get();
        int id = head.getInt();
        if (!keys.containsKey(id)) {
            return new Opened(Refusal.UNKNOWN_KEY, null, 0);
        }
        byte[] iv = new byte[IV_BYTES];
        head.get(iv);
        byte[] plain;
        try {
            plain = cipher(Cipher.DECRYPT_MODE, id, type, wireKey, iv).doFinal(sealed, HEAD_BYTES, sealed.length - HEAD_BYTES);
        } catch (AEADBadTagException forged) {
            return new Opened(Refusal.FORGED, null, 0);
        }
        ByteBuffer read = ByteBuffer.wrap(plain);
        byte kind = read.get();
        long writtenMs = read.getLong();
        if (kind != VALUE && kind != REMOVAL || writtenMs < 0 || kind == REMOVAL && read.hasRemaining()) {
            return new Opened(Refusal.MALFORMED, null, 0);
        }
        byte[] value = new byte[read.remaining()];
        read.get(value);
        return new Opened(null, kind == REMOVAL ? null : value, writtenMs);
    }

    private Cipher cipher(int mode, int id, TopicType type, byte[] wireKey, byte[] iv) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(mode, keys.get(id), new GCMParameterSpec(TAG_BITS, iv));
        cipher.updateAAD(CONTEXTS.get(type));
        cipher.updateAAD(wireKey);
        return cipher;
    }
}
