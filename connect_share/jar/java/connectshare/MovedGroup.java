package connectshare;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Records on the config topic that say that this worker must not join the Kafka group: a move has fenced the group on topics that
 * it has left, or the group uses a key that the worker does not have.
 *
 * <p>The newest record under its key counts. A worker joins as soon as it has read the config topic to its end, and nobody is told
 * when that is. So where such a record was read, the rest of the topic is asked whether one follows.
 */
final class MovedGroup {
    /** Its key without the prefix: the target state of a connector that there never is. */
    static final String KEY = "target-state-";
    private static final long LIMIT_NS = TimeUnit.SECONDS.toNanos(60);

    private final Map<String, Object> properties = new HashMap<>();
    private final GroupKeys keys;
    private final SealedTopics sealed;
    // What the newest records say, by their keys without the prefix.
    private final Map<String, String> objections = new LinkedHashMap<>();
    private long decidedUpTo = -1;

    MovedGroup(Map<String, ?> clients, GroupKeys keys, SealedTopics sealed) {
        properties.putAll(clients);
        properties.keySet().removeAll(Arrays.asList("group.id", "group.instance.id", Settings.INTERCEPTORS));
        properties.put("client.id", clients.get("client.id") + "-asking");
        properties.put("enable.auto.commit", "false");
        properties.put("key.deserializer", StringDeserializer.class);
        properties.put("value.deserializer", ByteArrayDeserializer.class);
        this.keys = keys;
        this.sealed = sealed;
    }

    /** Notes one record that the group accepts. */
    void see(ConsumerRecord<Object, Object> accepted) {
        if (KEY.equals(accepted.key())) {
            Object value = accepted.value();
            String json = value instanceof byte[] ? new String((byte[]) value, StandardCharsets.UTF_8) : "";
            say(KEY, json.contains("\"moved\"") ? "this group was moved away from topic " + accepted.topic() + " by "
                + Texts.shown(ConnectorWatch.property(json, "plan")) + ": start its workers where it was moved to; to bring it back, run "
                + "connect-share-migrate unseal or rollback with that plan" : null);
        }
    }

    /** Notes what the newest record under a key says against a start, null: nothing. */
    void say(String key, String objection) {
        objections.remove(key);
        if (objection != null) {
            objections.put(key, objection);
            decidedUpTo = -1;
        }
    }

    /** Returns why the worker has to end, null: nothing says so up to here; {@code last} is the last record that was read. */
    String objection(ConsumerRecord<Object, Object> last) throws GeneralSecurityException {
        if (objections.isEmpty() || last.offset() < decidedUpTo) {
            return null;
        }
        decidedUpTo = Long.MAX_VALUE;
        for (Map.Entry<String, String> objection : objections.entrySet()) {
            long next = next(new TopicPartition(last.topic(), last.partition()), last.offset() + 1, keys.prefixed(objection.getKey()));
            if (next < 0) {
                return objection.getValue();
            }
            decidedUpTo = Math.min(decidedUpTo, next);
        }
        return null;
    }

    /** Returns how many partitions a topic has now. */
    int partitions(String topic) {
        try (KafkaConsumer<String, byte[]> consumer = new KafkaConsumer<>(properties)) {
            return consumer.partitionsFor(topic).size();
        }
    }

    /** Returns the offset of the next record with this key that may count, -1: there is none; anybody can go on writing others. */
    private long next(TopicPartition partition, long from, String wireKey) throws GeneralSecurityException {
        long began = System.nanoTime();
        try (KafkaConsumer<String, byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(Collections.singletonList(partition));
            long end = consumer.endOffsets(Collections.singletonList(partition)).get(partition);
            consumer.seek(partition, from);
            while (consumer.position(partition) < end) {
                if (System.nanoTime() - began > LIMIT_NS) {
                    throw new IllegalStateException("the end of " + partition + " was not reached");
                }
                for (ConsumerRecord<String, byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    if (wireKey.equals(record.key()) && sealed.mayCount(SealedTopics.bytes(wireKey), record.value())) {
                        return record.offset();
                    }
                }
            }
            return -1;
        }
    }
}
