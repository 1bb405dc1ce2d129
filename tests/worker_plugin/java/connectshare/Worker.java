package connectshare;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/** A worker's properties, instances of the interceptor for its clients, and records. */
final class Worker implements AutoCloseable {
    static final String CONFIG = "shared-configs";
    static final String STATUS = "shared-status";
    static final String OFFSET = "shared-offsets";
    static final String OTHER = "data";
    static final String[] TOPICS = {CONFIG, STATUS, OFFSET};
    static final String GROUP = "com.acme";
    private static final List<TopicSharingInterceptor> OPEN = new ArrayList<>();

    /** What no key of Connect can be, on any topic. */
    static final List<Object> HOSTILE_KEYS = Arrays.asList(
        null, 7, 7L, 'c', Boolean.TRUE, new Object(), new int[] {1}, new char[] {'['}, new Object[0], new ArrayList<>(),
        new HashMap<>(), ByteBuffer.wrap(bytes("connector-x")), new StringBuilder("connector-x"), Optional.of("connector-x"), "", ".",
        "connector", "Connector-x", " connector-x", "session-key2", "com.acme.connector-x", "com.acme.session-key", "com.acme.[\"x\"]",
        "other.connector-x", "\ud800", "\u0000", "x".repeat(100_000), "{}", new byte[0], new byte[] {-1}, bytes("com.acme.[\"x\",{}]"),
        bytes("com.acme.connector-x"), bytes(" ["), bytes("session-key2"), new byte[100_000]);

    final Map<String, Object> properties;
    final TopicSharingInterceptor first;

    /** A worker with two properties more for each pair of words. */
    Worker(String... more) {
        properties = properties(more);
        first = client(properties);
    }

    static Map<String, Object> properties(String... more) {
        Map<String, Object> properties = new HashMap<>();
        properties.put("group.id", GROUP);
        properties.put("config.storage.topic", CONFIG);
        properties.put("status.storage.topic", STATUS);
        properties.put("offset.storage.topic", OFFSET);
        properties.put("interceptor.classes", "connectshare.TopicSharingInterceptor");
        properties.put("connect.management.topic.sharing.support", "enabled");
        properties.put("client.id", "one");
        for (int i = 0; i < more.length; i += 2) {
            if (more[i + 1] == null) {
                properties.remove(more[i]);
            } else {
                properties.put(more[i], more[i + 1]);
            }
        }
        return properties;
    }

    /** One more client with such properties. */
    static TopicSharingInterceptor client(Map<String, Object> properties) {
        TopicSharingInterceptor client = new TopicSharingInterceptor();
        client.configure(properties);
        OPEN.add(client);
        return client;
    }

    /** One more client of this worker. */
    TopicSharingInterceptor client() {
        return client(properties);
    }

    /** A client of a connector, which is told nothing of the worker. */
    static TopicSharingInterceptor connectorClient(String... properties) {
        Map<String, Object> own = new HashMap<>();
        own.put("bootstrap.servers", "localhost:1");
        own.put("interceptor.classes", "connectshare.TopicSharingInterceptor");
        for (int i = 0; i < properties.length; i += 2) {
            own.put(properties[i], properties[i + 1]);
        }
        return client(own);
    }

    @Override
    public void close() {
        closeAll();
    }

    static void closeAll() {
        OPEN.forEach(TopicSharingInterceptor::close);
        OPEN.clear();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** A key that Connect writes to such a topic. */
    static Object goodKey(String topic, String name) {
        return topic.equals(CONFIG) ? "connector-" + name : topic.equals(STATUS) ? "status-task-" + name + "-0" : bytes("[\"" + name + "\"]");
    }

    static Object prefixed(String group, Object key) {
        return key instanceof String ? group + "." + key : bytes(group + "." + new String((byte[]) key, StandardCharsets.UTF_8));
    }

    static ProducerRecord<Object, Object> toSend(String topic, Object key, Object value) {
        return new ProducerRecord<>(topic, null, null, key, value, null);
    }

    static ConsumerRecord<Object, Object> read(String topic, int partition, long offset, Object key, Object value) {
        return read(topic, partition, offset, 5L, TimestampType.CREATE_TIME, 10, 20, key, value, new RecordHeaders(), Optional.empty());
    }

    /** Every constructor with a leader epoch that there was or is, the one of this client taken. */
    static ConsumerRecord<Object, Object> read(String topic, int partition, long offset, long timestamp, TimestampType type, int keySize,
            int valueSize, Object key, Object value, Headers headers, Optional<Integer> epoch) {
        try {
            for (var constructor : ConsumerRecord.class.getConstructors()) {
                Class<?>[] types = constructor.getParameterTypes();
                if (types.length == 11 && types[10] == Optional.class) {
                    return record(constructor.newInstance(topic, partition, offset, timestamp, type, keySize, valueSize, key, value, headers, epoch));
                }
                if (types.length == 12 && types[5] == Long.class) {
                    return record(constructor.newInstance(
                        topic, partition, offset, timestamp, type, null, keySize, valueSize, key, value, headers, epoch));
                }
            }
        } catch (ReflectiveOperationException impossible) {
            throw new AssertionError(impossible);
        }
        throw new AssertionError("no constructor");
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecord<Object, Object> record(Object made) {
        return (ConsumerRecord<Object, Object>) made;
    }

    @SafeVarargs
    static ConsumerRecords<Object, Object> poll(ConsumerRecord<Object, Object>... records) {
        Map<TopicPartition, List<ConsumerRecord<Object, Object>>> byPartition = new java.util.LinkedHashMap<>();
        for (ConsumerRecord<Object, Object> record : records) {
            byPartition.computeIfAbsent(new TopicPartition(record.topic(), record.partition()), ignored -> new ArrayList<>()).add(record);
        }
        return new ConsumerRecords<>(byPartition);
    }

    static List<ConsumerRecord<Object, Object>> list(ConsumerRecords<Object, Object> records) {
        List<ConsumerRecord<Object, Object>> list = new ArrayList<>();
        records.forEach(list::add);
        return list;
    }

    /** Nothing goes out or comes in any more, whatever the topic; others are untouched. */
    static void stopped(TopicSharingInterceptor client, Object about) {
        for (String topic : TOPICS) {
            Object key = goodKey(topic, "x");
            Checks.stops(() -> client.onSend(toSend(topic, key, bytes("{}"))), about);
            Checks.equal(client.onConsume(poll(read(topic, 0, 1, prefixed(GROUP, key), null), read(topic, 0, 2, key, null))).count(), 0, about);
        }
        ProducerRecord<Object, Object> other = toSend(OTHER, 7, 8);
        Checks.same(client.onSend(other), other, about);
        ConsumerRecords<Object, Object> others = poll(read(OTHER, 0, 0, 7, 8));
        Checks.same(client.onConsume(others), others, about);
    }

    /** Works as on the first day. */
    static void alive(TopicSharingInterceptor client, Object about) {
        for (String topic : TOPICS) {
            Object key = goodKey(topic, "x");
            Checks.equal(client.onSend(toSend(topic, key, bytes("{}"))).key(), prefixed(GROUP, key), about);
            List<ConsumerRecord<Object, Object>> got = list(client.onConsume(
                poll(read(topic, 0, 1, prefixed(GROUP, key), null), read(topic, 0, 2, key, null), read(topic, 0, 3, null, null))));
            Checks.equal(got.size(), 1, about);
            Checks.equal(got.get(0).key(), key, about);
        }
    }
}
