package connectshare;

import connectshare.GroupKeys.TopicType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.config.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The sealing of one worker: what all its clients write is sealed, what each of them reads is opened or refused.
 *
 * <p>Source of the rules: {@code connect_share/sealing/seals.py}.
 */
final class SealedTopics {
    // From Kafka 4.0 on a broker refuses what is dated later, unless it is told otherwise.
    private static final long AHEAD_MS = 3_600_000;
    private static final Logger LOG = LoggerFactory.getLogger(TopicSharingInterceptor.class);
    static final byte[] JSON_NULL = "null".getBytes(StandardCharsets.US_ASCII);
    // Not MovedGroup.KEY itself: JSON null there lifts the fence of a group that was moved away.
    private static final String MOVES_ONLY = MovedGroup.KEY + " ";

    private final Settings settings;
    private final Seal seal;
    // Times of the newest value of each key that was read or sealed here, for the times of the next ones; of plain ones those of the
    // future.
    private final Map<ByteBuffer, Long> latest = new ConcurrentHashMap<>();
    private final SealedConfigs configs = new SealedConfigs();
    private final KeysInUse keysInUse;

    /**
     * Takes a worker's settings.
     *
     * @throws ConfigException this Java cannot seal with its keys
     */
    SealedTopics(Settings settings) {
        this.settings = settings;
        keysInUse = settings.sealing == SealingMode.OFF ? null : new KeysInUse(settings.sealingKeys);
        try {
            seal = settings.sealing == SealingMode.OFF ? null : new Seal(settings.sealingKeys);
        } catch (GeneralSecurityException | LinkageError trouble) {
            throw new ConfigException("this Java cannot seal with " + Settings.SEALING_KEYS + ", AES-256-GCM is missing ("
                + trouble.getClass().getSimpleName() + "); Java 8u161 or later has it");
        }
    }

    /** Returns why nothing may be written: the group looks sealed, and its keys are not here. Null: it may. */
    String objection() {
        return seal != null ? keysInUse.objection() : configs.objection();
    }

    /** Returns a value as it goes to a topic: without keys as it is, else sealed, a removal too. */
    Object outgoing(TopicType type, Object wireKey, Object value) throws GeneralSecurityException {
        Object written = value == null && type == TopicType.CONFIG ? JSON_NULL.clone() : value;
        if (seal == null) {
            return written;
        }
        if (written != null && !(written instanceof byte[])) {
            throw new IllegalStateException("a value is given as " + written.getClass().getName() + ", internal clients write bytes");
        }
        byte[] key = bytes(wireKey);
        return seal.seal(type, key, (byte[]) written, nextMs(type, key));
    }

    /** When a value that is sealed now was written: later than all of its key that were read, or sealed here. */
    private long nextMs(TopicType type, byte[] key) {
        long now = System.currentTimeMillis();
        return latest.merge(named(type, key), now, (known, at) -> Math.max(at, known == Long.MAX_VALUE ? known : known + 1));
    }

    /** Whether a record of the config topic that is still to be read may count: it opens, and is newer than what was read. */
    boolean mayCount(byte[] wireKey, byte[] value) throws GeneralSecurityException {
        if (value == null || !Seal.isSealed(value)) {
            return settings.sealing != SealingMode.REQUIRED;
        }
        Seal.Opened opened = seal == null ? null : seal.open(TopicType.CONFIG, wireKey, value);
        return opened != null && opened.refusal == null && opened.writtenMs > latest.getOrDefault(named(TopicType.CONFIG, wireKey), -1L);
    }

    /** Writes which keys the group uses, before anything else is written; usually nothing. */
    void announceKeys(GroupKeys keys, String configTopic, KeyAnnouncer announcer) throws Exception {
        for (int[] pair : seal == null ? Collections.<int[]>emptyList() : keysInUse.unannounced()) {
            byte[] key = bytes(keys.prefixed(KeysInUse.key(pair[0], pair[1])));
            announcer.write(configTopic, key, seal.seal(pair[1], TopicType.CONFIG, key, null, nextMs(TopicType.CONFIG, key)));
        }
    }

    /** Returns what speaks against a start as far as the config topic was read, null: nothing does. */
    String objectionSoFar() {
        return seal != null ? keysInUse.soFar() : configs.soFar();
    }

    /** Whether nothing speaks against a start any more behind a record of the group that follows there, and is to be read again. */
    boolean lifts(ConsumerRecord<String, byte[]> record, String original) throws GeneralSecurityException {
        if (seal != null) {
            return record.value() != null && seal.open(TopicType.CONFIG, bytes(record.key()), record.value()).refusal == null;
        }
        configs.see(original, record.value(), place(record));
        return configs.soFar() == null;
    }

    static byte[] bytes(Object key) {
        return key instanceof String ? ((String) key).getBytes(StandardCharsets.UTF_8) : (byte[]) key;
    }

    /** The type is of one topic, so type and key say which value it is. */
    private static ByteBuffer named(TopicType type, byte[] key) {
        byte[] name = new byte[1 + key.length];
        name[0] = (byte) type.ordinal();
        System.arraycopy(key, 0, name, 1, key.length);
        return ByteBuffer.wrap(name);
    }

    /**
     * The reading side of one client. It remembers what it has read itself: another client may begin anew, or see what was aborted.
     *
     * <p>Made in the thread in which the client is made. Connect reads a topic to its end for the first time in that thread, and
     * in another one later.
     */
    final class Reader {
        private final long starter = Thread.currentThread().getId();
        private final Map<ByteBuffer, Newest> newest = new HashMap<>();
        private final MovedGroup objections;

        Reader(MovedGroup objections) {
            this.objections = objections;
        }

        /** Whether a topic is still read for the first time. */
        boolean isStarting() {
            return Thread.currentThread().getId() == starter;
        }

        /**
         * Returns an own record as the store has to see it, null: it is refused.
         *
         * @param original its key without the prefix
         */
        ConsumerRecord<Object, Object> accepted(
                TopicType type, ConsumerRecord<Object, Object> record, Object original, KeyPlaces places, TopicCounters counters)
                throws GeneralSecurityException, ReflectiveOperationException {
            boolean sealed = record.value() instanceof byte[] && Seal.isSealed((byte[]) record.value());
            if (seal == null && type == TopicType.CONFIG && !settings.saysPlain) {
                configs.see(original, record.value(), place(record));
            }
            if (seal == null && sealed) {
                return refused(record, Refusal.NO_KEYS, counters);
            }
            byte[] value = seal == null ? null : value(record.value());
            if (seal == null || !sealed && settings.sealing == SealingMode.ACCEPT) {
                long aheadMs = record.timestamp() - System.currentTimeMillis();
                if (type != TopicType.CONFIG && aheadMs > 0 && aheadMs < AHEAD_MS) {
                    latest.merge(named(type, bytes(record.key())), record.timestamp(), Math::max);
                }
                return places.counting(type, record, RecordCopies.with(record, original, record.value()), record.timestamp());
            }
            if (!sealed) {
                return refused(record, value == null ? Refusal.TOMBSTONE : Refusal.PLAIN, counters);
            }
            byte[] key = bytes(record.key());
            Seal.Opened opened = seal.open(type, key, value);
            if ((opened.refusal == Refusal.UNKNOWN_KEY || opened.refusal == Refusal.FORGED) && type == TopicType.CONFIG) {
                keysInUse.unknown(place(record) + " is sealed with key " + Seal.keyId(value) + ", and no value of the group opens, but "
                    + Settings.SEALING_KEYS + " has " + (opened.refusal == Refusal.UNKNOWN_KEY ? only()
                        : "another one under this id: put that of the group there") + "; if the group never had it, another writer's "
                    + "record keeps it from starting: write null under its key, and let the cleaner take it");
            }
            if (opened.refusal != null) {
                return refused(record, opened.refusal, counters);
            }
            ByteBuffer name = named(type, key);
            latest.merge(name, opened.writtenMs, Math::max);
            Newest before = newest.computeIfAbsent(placed(record.partition(), name), absent -> new Newest());
            ByteBuffer iv = Seal.ivOf(value);
            boolean again = opened.writtenMs == before.writtenMs && iv.equals(before.last());
            if (again) {
                counters.repeated.increment();
            } else if (!before.accepts(opened.writtenMs, iv)) {
                refused(record, Refusal.REPLAYED, counters);
                again = true;
            }
            if (again) {
                // It moves the position and nothing else: a reader that remembers less accepts the record, and moves.
                Object moves = original instanceof String ? MOVES_ONLY : bytes(MOVES_ONLY);
                return type != TopicType.CONFIG ? null : RecordCopies.with(record, moves, JSON_NULL.clone());
            }
            if (type == TopicType.CONFIG) {
                noteKey(record, original instanceof String ? (String) original : new String(bytes(original), StandardCharsets.UTF_8), value,
                    opened.value == null);
            }
            // On the config topic the same removal: what was sealed cannot be cleaned away as a tombstone can.
            byte[] given = opened.value == null && type == TopicType.CONFIG ? JSON_NULL.clone() : opened.value;
            return places.counting(type, record, RecordCopies.with(record, original, given), opened.writtenMs);
        }

        private void noteKey(ConsumerRecord<Object, Object> record, String original, byte[] value, boolean removal) {
            String id = keysInUse.see(original, ByteBuffer.wrap(value).getInt(1), removal);
            String objection = id == null ? null
                : place(record) + " says that the group uses key " + id + ", but " + Settings.SEALING_KEYS + " has " + only();
            if (original.startsWith(KeysInUse.ANNOUNCED)) {
                objections.say(original, objection);
            }
            if (objection != null && !isStarting()) {
                LOG.error("{}", objection);
            }
        }

        private ConsumerRecord<Object, Object> refused(ConsumerRecord<Object, Object> record, Refusal why, TopicCounters counters) {
            if (counters.refuses()) {
                LOG.error("Refused the record at {}: {}", place(record), why.text);
            }
            return null;
        }
    }

    /** Returns the time of a plain record that is sent: later than what is dated in the future, perhaps in another partition. */
    Long time(TopicType type, Object wireKey, Long given) {
        Long known = seal == null ? latest.get(named(type, bytes(wireKey))) : null;
        return known == null ? given : Long.valueOf(Math.max(System.currentTimeMillis(), known + 1));
    }

    private String only() {
        return "only " + settings.sealingKeys.ids() + ": put the missing key behind those that are there";
    }

    private static ByteBuffer placed(int partition, ByteBuffer name) {
        byte[] placed = new byte[Integer.BYTES + name.capacity()];
        ByteBuffer.wrap(placed).putInt(partition).put(name.array());
        return ByteBuffer.wrap(placed);
    }

    /** Of one key in one partition the time of the newest value, and the IVs of those that have this time, in the order of the log. */
    private static final class Newest {
        private long writtenMs = -1;
        private final List<ByteBuffer> ivs = new ArrayList<>(1);

        ByteBuffer last() {
            return ivs.isEmpty() ? null : ivs.get(ivs.size() - 1);
        }

        /** Whether a value counts: it is not older than the newest one, and was not read before. */
        boolean accepts(long atMs, ByteBuffer iv) {
            if (atMs < writtenMs || atMs == writtenMs && ivs.contains(iv)) {
                return false;
            }
            if (atMs > writtenMs) {
                ivs.clear();
                writtenMs = atMs;
            }
            return ivs.add(iv);
        }
    }

    private static byte[] value(Object value) {
        if (value == null || value instanceof byte[]) {
            return (byte[]) value;
        }
        throw new IllegalStateException("values of a shared topic are read as " + value.getClass().getName()
            + "; the worker's internal clients read bytes");
    }

    private static String place(ConsumerRecord<?, ?> record) {
        return record.topic() + "[" + record.partition() + "]@" + record.offset();
    }
}
