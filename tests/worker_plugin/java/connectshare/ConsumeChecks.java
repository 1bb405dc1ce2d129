package connectshare;

import static connectshare.Checks.equal;
import static connectshare.Checks.same;
import static connectshare.Checks.stops;
import static connectshare.Checks.that;
import static connectshare.Worker.list;
import static connectshare.Worker.poll;
import static connectshare.Worker.read;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/** What comes in. */
final class ConsumeChecks {
    private ConsumeChecks() {
    }

    /** Polls of several topics and partitions: exactly the own records, complete and in order. */
    public static void ownRecordsOnly() {
        Random random = Checks.random();
        try (Worker worker = new Worker()) {
            for (int i = 0; i < 2_000; i++) {
                Map<TopicPartition, List<ConsumerRecord<Object, Object>>> polled = new LinkedHashMap<>();
                List<ConsumerRecord<Object, Object>> expected = new ArrayList<>();
                for (int j = random.nextInt(5); j > 0; j--) {
                    String topic = random.nextInt(4) == 0 ? Worker.OTHER : Worker.TOPICS[random.nextInt(3)];
                    TopicPartition partition = new TopicPartition(topic, random.nextInt(50));
                    if (!polled.containsKey(partition)) {
                        polled.put(partition, records(random, partition, expected));
                    }
                }
                List<ConsumerRecord<Object, Object>> got = list(worker.first.onConsume(new ConsumerRecords<>(polled)));
                equal(got.size(), expected.size(), "records");
                for (int j = 0; j < got.size(); j++) {
                    compare(got.get(j), expected.get(j));
                }
            }
        }
        equal(CapturedLog.lines("").size(), 1, "lines for records");
    }

    private static List<ConsumerRecord<Object, Object>> records(
            Random random, TopicPartition partition, List<ConsumerRecord<Object, Object>> expected) {
        List<ConsumerRecord<Object, Object>> records = new ArrayList<>();
        boolean other = partition.topic().equals(Worker.OTHER);
        for (int k = random.nextInt(20); k > 0; k--) {
            Object original = other ? Integer.valueOf(k) : Worker.goodKey(partition.topic(), partition.partition() + ".y" + k);
            String group = random.nextBoolean() ? Worker.GROUP : random.nextBoolean() ? "com.acme.orders" : "com";
            boolean isOwn = other || group.equals(Worker.GROUP);
            Object key = other ? original : Worker.prefixed(group, original);
            if (!isOwn && random.nextBoolean()) {
                key = random.nextBoolean() ? null : original;
            }
            long timestamp = random.nextInt(3) - 1;
            TimestampType type = TimestampType.values()[random.nextInt(3)];
            RecordHeaders headers = new RecordHeaders();
            for (int h = random.nextInt(10) == 0 ? 300 : random.nextInt(2); h > 0; h--) {
                headers.add("h", null);
            }
            Object value = random.nextInt(4) == 0 ? null : new byte[random.nextInt(3)];
            int size = random.nextInt(5) == 0 ? -1 : 100 + k;
            Optional<Integer> epoch = random.nextBoolean() ? Optional.empty() : Optional.of(random.nextInt(9));
            long offset = records.size() * 3L;
            records.add(read(partition.topic(), partition.partition(), offset, timestamp, type, size, size - 50, key, value, headers, epoch));
            if (isOwn) {
                int own = other ? size : original instanceof byte[] ? ((byte[]) original).length : original.toString().length();
                expected.add(read(partition.topic(), partition.partition(), offset, timestamp, type, own, size - 50, original, value,
                    headers, epoch));
            }
        }
        return records;
    }

    private static void compare(ConsumerRecord<Object, Object> got, ConsumerRecord<Object, Object> expected) {
        equal(got.topic(), expected.topic(), "topic");
        equal(got.partition(), expected.partition(), "partition");
        equal(got.offset(), expected.offset(), "offset");
        equal(got.timestamp(), expected.timestamp(), "timestamp");
        equal(got.timestampType(), expected.timestampType(), "timestamp type");
        equal(got.key(), expected.key(), "key");
        same(got.value(), expected.value(), "value");
        same(got.headers(), expected.headers(), "headers");
        equal(got.leaderEpoch(), expected.leaderEpoch(), "leader epoch");
        equal(got.serializedKeySize(), expected.serializedKeySize(), "size of the key");
        equal(got.serializedValueSize(), expected.serializedValueSize(), "size of the value");
    }

    /** Polls with nothing for us are handed back as they are. */
    public static void emptyPollsAndOtherTopics() {
        try (Worker worker = new Worker()) {
            ConsumerRecords<Object, Object> empty = ConsumerRecords.empty();
            same(worker.first.onConsume(empty), empty, "empty");
            equal(worker.first.onConsume(new ConsumerRecords<>(
                Collections.singletonMap(new TopicPartition(Worker.CONFIG, 0), new ArrayList<>()))).count(), 0, "empty partition");
            ConsumerRecords<Object, Object> others = poll(read(Worker.OTHER, 0, 0, 7, null), read("shared-configs2", 0, 0, null, null));
            same(worker.first.onConsume(others), others, "others");
            ConsumerRecords<Object, Object> mixed = poll(read(Worker.OTHER, 0, 0, 7, null), read(Worker.CONFIG, 0, 0, "x.connector-x", null));
            ConsumerRecords<Object, Object> got = worker.first.onConsume(mixed);
            equal(got.count(), 1, "mixed");
            same(got.iterator().next(), mixed.iterator().next(), "mixed");
        }
    }

    /** Keys that no internal client reads stop the worker; no record of that poll passes, nor of any later one. */
    public static void hostileKeys() {
        for (String topic : Worker.TOPICS) {
            for (Object key : Worker.HOSTILE_KEYS) {
                try (Worker worker = new Worker()) {
                    Object own = Worker.goodKey(topic, "x");
                    ConsumerRecords<Object, Object> polled = poll(
                        read(topic, 0, 0, Worker.prefixed(Worker.GROUP, own), null), read(topic, 0, 1, key, null), read(topic, 0, 2, own, null));
                    boolean known = key == null || key instanceof String || key instanceof byte[];
                    if (known) {
                        for (ConsumerRecord<Object, Object> record : worker.first.onConsume(polled)) {
                            that(record.offset() == 0 || record.offset() == 1 && isOwn(topic, key), "foreign record passed: " + key);
                        }
                        Worker.alive(worker.first, key);
                    } else {
                        stops(() -> worker.first.onConsume(polled), topic + key);
                        equal(worker.first.onConsume(polled).count(), 0, "the same poll again");
                        Worker.stopped(worker.first, key);
                        Worker.stopped(worker.client(), key);
                        equal(CapturedLog.lines("ERROR Topic sharing stopped").size(), 1, key);
                        CapturedLog.clear();
                    }
                }
            }
        }
    }

    /** What only looks like the record that fences a group changes nothing, for a worker that starts and one that runs. */
    public static void noFences() {
        try (Worker worker = new Worker()) {
            for (String value : new String[] {"{\"moved\":{}}", "\"moved\"", "{\"moved\":{\"plan\":7}}", "{\"moved\"", "{\"plan\":\"x\"}"}) {
                equal(worker.first.onConsume(poll(read(Worker.CONFIG, 0, 0, "com.acme.target-state-", Worker.bytes(value)))).count(), 1, value);
                Worker.alive(worker.first, value);
            }
        }
    }

    private static boolean isOwn(String topic, Object key) {
        String text = key instanceof byte[] bytes ? new String(bytes) : String.valueOf(key);
        return topic.equals(Worker.OFFSET) ? text.startsWith("com.acme.[")
            : topic.equals(Worker.CONFIG) && (text.equals("com.acme.session-key") || text.equals("com.acme.connector-x"));
    }

    /** Records and polls that fail when they are looked at. */
    public static void brokenRecords() {
        for (Throwable trouble : new Throwable[] {
            new IllegalStateException("x"), new StackOverflowError("x"), new OutOfMemoryError("x"), new NoSuchMethodError("x")}) {
            for (boolean inKey : new boolean[] {true, false}) {
                try (Worker worker = new Worker()) {
                    stops(() -> worker.first.onConsume(poll(broken(trouble, inKey))), trouble);
                    Worker.stopped(worker.first, trouble);
                }
            }
        }
        try (Worker worker = new Worker()) {
            stops(() -> worker.first.onConsume(null), "null");
            Worker.stopped(worker.first, "null");
        }
    }

    private static ConsumerRecord<Object, Object> broken(Throwable trouble, boolean inKey) {
        return new ConsumerRecord<>(Worker.CONFIG, 0, 0L, "com.acme.connector-x", (Object) null) {
            @Override
            public Object key() {
                return inKey ? thrown() : super.key();
            }

            @Override
            public Object value() {
                return inKey ? super.value() : thrown();
            }

            private Object thrown() {
                if (trouble instanceof Error error) {
                    throw error;
                }
                throw (RuntimeException) trouble;
            }
        };
    }

    /** From 4.0 on a poll has the next offsets; they stay, also where no record does. */
    @SuppressWarnings("unchecked")
    public static void nextOffsetsStay() throws Exception {
        Constructor<?> constructor;
        try {
            constructor = ConsumerRecords.class.getConstructor(Map.class, Map.class);
        } catch (NoSuchMethodException before40) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> next = Map.of(new TopicPartition(Worker.CONFIG, 0), new OffsetAndMetadata(9));
        try (Worker worker = new Worker()) {
            for (String group : new String[] {Worker.GROUP, "other"}) {
                ConsumerRecords<Object, Object> polled = (ConsumerRecords<Object, Object>) constructor.newInstance(
                    Map.of(new TopicPartition(Worker.CONFIG, 0), List.of(read(Worker.CONFIG, 0, 8, group + ".connector-x", null))), next);
                ConsumerRecords<Object, Object> got = worker.first.onConsume(polled);
                equal(got.count(), group.equals(Worker.GROUP) ? 1 : 0, group);
                equal(ConsumerRecords.class.getMethod("nextOffsets").invoke(got), next, group);
            }
            stops(() -> worker.first.onConsume(poll(read(Worker.CONFIG, 0, 0, 7, null))), "stop");
            ConsumerRecords<Object, Object> polled = (ConsumerRecords<Object, Object>) constructor.newInstance(
                Map.of(new TopicPartition(Worker.CONFIG, 0), List.of(read(Worker.CONFIG, 0, 8, "com.acme.connector-x", null))), next);
            equal(ConsumerRecords.class.getMethod("nextOffsets").invoke(worker.first.onConsume(polled)), next, "stopped");
        }
    }
}
