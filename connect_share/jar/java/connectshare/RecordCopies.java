package connectshare;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.record.TimestampType;

/**
 * Makes consumer records with another key and value, on every version of the client.
 *
 * <p>The constructor that takes a leader epoch has a checksum in 2.8 and none from 3.0 on; {@code ConsumerRecords} takes the
 * next offsets from 4.0 on. Looked up once; a client with neither fails to load this class, which stops the worker.
 */
final class RecordCopies {
    private static final Constructor<?> RECORD;
    private static final boolean WITH_CHECKSUM;
    private static final Constructor<?> RECORDS_WITH_OFFSETS;
    private static final Method NEXT_OFFSETS;

    static {
        Constructor<?> record = constructor(ConsumerRecord.class, String.class, int.class, long.class, long.class,
            TimestampType.class, int.class, int.class, Object.class, Object.class, Headers.class, Optional.class);
        WITH_CHECKSUM = record == null;
        if (record == null) {
            record = constructor(ConsumerRecord.class, String.class, int.class, long.class, long.class, TimestampType.class,
                Long.class, int.class, int.class, Object.class, Object.class, Headers.class, Optional.class);
        }
        if (record == null) {
            throw new TopicSharingError("this version of kafka-clients has no known constructor of ConsumerRecord; "
                + "use a newer version of this jar", null);
        }
        RECORD = record;
        RECORDS_WITH_OFFSETS = constructor(ConsumerRecords.class, Map.class, Map.class);
        // From the same version on as the constructor.
        NEXT_OFFSETS = Arrays.stream(ConsumerRecords.class.getMethods())
            .filter(method -> method.getName().equals("nextOffsets")).findFirst().orElse(null);
    }

    /** Loads this class, and fails if the client is of an unknown kind. */
    static void ready() {
        // The static initialiser has done it.
    }

    private RecordCopies() {
    }

    private static Constructor<?> constructor(Class<?> type, Class<?>... parameters) {
        try {
            return type.getConstructor(parameters);
        } catch (NoSuchMethodException absent) {
            return null;
        }
    }

    /** The same record with another key and value. */
    @SuppressWarnings("unchecked")
    static <K, V> ConsumerRecord<K, V> with(ConsumerRecord<K, V> record, Object key, Object value) throws ReflectiveOperationException {
        int keySize = key instanceof byte[] ? ((byte[]) key).length : ((String) key).getBytes(StandardCharsets.UTF_8).length;
        boolean isBytes = value instanceof byte[];
        int valueSize = value == record.value() ? record.serializedValueSize() : isBytes ? ((byte[]) value).length : -1;
        Object copy = WITH_CHECKSUM
            ? RECORD.newInstance(record.topic(), record.partition(), record.offset(), record.timestamp(),
                record.timestampType(), null, keySize, valueSize, key, value, record.headers(),
                record.leaderEpoch())
            : RECORD.newInstance(record.topic(), record.partition(), record.offset(), record.timestamp(),
                record.timestampType(), keySize, valueSize, key, value, record.headers(),
                record.leaderEpoch());
        return (ConsumerRecord<K, V>) copy;
    }

    /** A poll's result with other records; where the class knows them, the next offsets stay. */
    @SuppressWarnings("unchecked")
    static <K, V> ConsumerRecords<K, V> withRecords(
            ConsumerRecords<K, V> polled, Map<TopicPartition, List<ConsumerRecord<K, V>>> records)
            throws ReflectiveOperationException {
        if (RECORDS_WITH_OFFSETS != null && NEXT_OFFSETS != null) {
            return (ConsumerRecords<K, V>) RECORDS_WITH_OFFSETS.newInstance(records, NEXT_OFFSETS.invoke(polled));
        }
        return new ConsumerRecords<>(records);
    }
}
