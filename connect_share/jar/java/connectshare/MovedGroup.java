package connectshare;

import connectshare.GroupKeys.TopicType;
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
 * Why this worker must not join the Kafka group, as records on the config topic say: a move has fenced the group on topics that it
 * has left, or the worker lacks a key of its group, or all of them. Without the group's values it would be behind the assignment,
 * and have the others join again and again.
 *
 * <p>A worker joins as soon as it has read the config topic to its end, and nobody is told when that is. So where something speaks
 * against it, the rest of the topic is asked whether a record follows that lifts it.
 */
final class MovedGroup {
    /** Its key without the prefix: the target state of a connector that there never is. */
    static final String KEY = "target-state-";
    private static final long LIMIT_NS = TimeUnit.SECONDS.toNanos(60);

    private final Map<String, Object> properties = new HashMap<>();
    private final GroupKeys keys;
    private final SealedTopics sealed;
    // What the newest records under keys of their own say, by these keys without the prefix.
    private final Map<String, String> objections = new LinkedHashMap<>();
    private long decidedUpTo = -1;

    /** Whether a record that is still to be read lifts an objection. */
    private interface Lifting {
        boolean is(ConsumerRecord<String, byte[]> record) throws GeneralSecurityException;
    }

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
            String plan = json.contains("\"moved\"") ? ConnectorWatch.property(json, "plan") : null;
            say(KEY, plan == null ? null : "this group was moved away from topic " + accepted.topic() + " by " + Texts.shown(plan)
                + ": start its workers where it was moved to; to bring it back, run connect-share-migrate unseal or rollback with that plan");
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
        if (objections.isEmpty() && sealed.objectionSoFar() == null || last.offset() < decidedUpTo) {
            return null;
        }
        decidedUpTo = Long.MAX_VALUE;
        for (Map.Entry<String, String> objection : objections.entrySet()) {
            String wireKey = keys.prefixed(objection.getKey());
            if (!follows(last, record -> wireKey.equals(record.key()) && sealed.mayCount(SealedTopics.bytes(wireKey), record.value()))) {
                return objection.getValue();
            }
        }
        boolean stays = sealed.objectionSoFar() != null && !follows(last, record -> {
            String original = keys.own(TopicType.CONFIG, record.key());
            return original != null && sealed.lifts(record, original);
        });
        return stays ? sealed.objectionSoFar() : null;
    }

    /** Returns how many partitions a topic has now. */
    int partitions(String topic) {
        try (KafkaConsumer<String, byte[]> consumer = new KafkaConsumer<>(properties)) {
            return consumer.partitionsFor(topic).size();
        }
    }

    /** Looks for the next record that lifts an objection, as far as the topic goes now; anybody can go on writing others. */
    private boolean follows(ConsumerRecord<Object, Object> last, Lifting lifting) throws GeneralSecurityException {
        TopicPartition partition = new TopicPartition(last.topic(), last.partition());
        long began = System.nanoTime();
        try (KafkaConsumer<String, byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(Collections.singletonList(partition));
            long end = consumer.endOffsets(Collections.singletonList(partition)).get(partition);
            consumer.seek(partition, last.offset() + 1);
            while (consumer.position(partition) < end) {
                if (System.nanoTime() - began > LIMIT_NS) {
                    throw new IllegalStateException("the end of " + partition + " was not reached");
                }
                for (ConsumerRecord<String, byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    if (record.key() != null && lifting.is(record)) {
                        decidedUpTo = Math.min(decidedUpTo, record.offset());
                        return true;
                    }
                }
            }
            return false;
        }
    }
}
