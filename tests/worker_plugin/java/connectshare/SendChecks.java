package connectshare;

import static connectshare.Checks.equal;
import static connectshare.Checks.same;
import static connectshare.Checks.stops;
import static connectshare.Checks.that;
import static connectshare.Worker.toSend;

import java.util.Random;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** What goes out. */
final class SendChecks {
    private static final String[] NAMES = {"x", "my.conn", "com.acme.connector-x", "日本 😀", "", ".", "\u0000", "session-key", "x".repeat(5_000)};

    private SendChecks() {
    }

    /** Everything but the key stays as it was. */
    public static void keysGetThePrefix() {
        Random random = Checks.random();
        try (Worker worker = new Worker()) {
            for (int i = 0; i < 20_000; i++) {
                String topic = Worker.TOPICS[random.nextInt(3)];
                Object key = Worker.goodKey(topic, NAMES[random.nextInt(NAMES.length)]);
                if (key instanceof String && random.nextInt(4) == 0) {
                    key = Worker.bytes((String) key);
                }
                Object value = random.nextInt(5) == 0 ? new byte[0] : Worker.bytes("{\"a\":" + i + "}");
                Headers headers = new RecordHeaders();
                for (int j = random.nextInt(10) == 0 ? 300 : random.nextInt(3); j > 0; j--) {
                    headers.add("h" + random.nextInt(3), random.nextBoolean() ? null : new byte[random.nextInt(9)]);
                }
                Integer partition = random.nextBoolean() ? null : Integer.valueOf(random.nextInt(50));
                Long timestamp = random.nextBoolean() ? null : Long.valueOf(random.nextInt(2) * Long.MAX_VALUE);
                ProducerRecord<Object, Object> sent = worker.first.onSend(new ProducerRecord<>(topic, partition, timestamp, key, value, headers));
                equal(sent.topic(), topic, "topic");
                equal(sent.key(), Worker.prefixed(Worker.GROUP, key), "key");
                same(sent.value(), value, "value");
                equal(sent.partition(), partition, "partition");
                equal(sent.timestamp(), timestamp, "timestamp");
                equal(sent.headers().toArray(), headers.toArray(), "headers");
            }
        }
    }

    /** The config topic gets the four bytes null, the other two a real tombstone. */
    public static void tombstones() {
        try (Worker worker = new Worker()) {
            for (String key : new String[] {"connector-x", "target-state-x", "session-key", "task-x-0"}) {
                equal(worker.first.onSend(toSend(Worker.CONFIG, key, null)).value(), Worker.bytes("null"), key);
                byte[] spoilt = (byte[]) worker.first.onSend(toSend(Worker.CONFIG, key, null)).value();
                spoilt[0] = 'X';
                equal(worker.first.onSend(toSend(Worker.CONFIG, key, null)).value(), Worker.bytes("null"), key);
            }
            same(worker.first.onSend(toSend(Worker.STATUS, "status-task-x-0", null)).value(), null, "status");
            same(worker.first.onSend(toSend(Worker.OFFSET, Worker.bytes("[]"), null)).value(), null, "offset");
        }
    }

    /** What Connect cannot have written is never sent, and nothing after it. */
    public static void hostileKeys() {
        for (String topic : Worker.TOPICS) {
            for (Object key : Worker.HOSTILE_KEYS) {
                CapturedLog.clear();
                try (Worker worker = new Worker()) {
                    Worker.alive(worker.first, "before");
                    String message = stops(() -> worker.first.onSend(toSend(topic, key, "SECRET")), topic + key).getMessage();
                    that(message.length() < 700 && message.chars().allMatch(c -> c >= 0x20 && c < 0x7f), message);
                    Worker.stopped(worker.first, topic + key);
                    Worker.stopped(worker.client(), "another client");
                    equal(CapturedLog.lines("ERROR Topic sharing stopped").size(), 1, topic + key);
                    equal(CapturedLog.lines("").stream().filter(line -> line.contains("SECRET")).count(), 0L, "value in the log");
                }
            }
        }
    }

    /** Nothing of a broken record gets through, nor an exception. */
    public static void brokenRecords() {
        for (int i = 0; i < 4; i++) {
            int kind = i;
            for (String topic : Worker.TOPICS) {
                try (Worker worker = new Worker()) {
                    stops(() -> worker.first.onSend(kind == 3 ? null : broken(topic, kind)), "broken " + kind);
                    Worker.stopped(worker.first, "broken " + kind);
                }
            }
        }
    }

    /** An error it is even where the log cannot be written. */
    public static void brokenLog() {
        try (Worker worker = new Worker()) {
            CapturedLog.setBroken(true);
            stops(() -> worker.first.onSend(toSend(Worker.CONFIG, 7, null)), "broken log");
            CapturedLog.setBroken(false);
            Worker.stopped(worker.first, "broken log");
        }
    }

    /** An instance that nobody configured lets nothing through. */
    public static void neverConfigured() {
        stops(() -> new TopicSharingInterceptor().onSend(toSend(Worker.CONFIG, "connector-x", null)), "send");
        stops(() -> new TopicSharingInterceptor().onConsume(Worker.poll(Worker.read(Worker.CONFIG, 0, 0, "connector-x", null))), "consume");
        new TopicSharingInterceptor().close();
    }

    private static ProducerRecord<Object, Object> broken(String topic, int kind) {
        return new ProducerRecord<>(topic, Worker.goodKey(topic, "x"), "v") {
            @Override
            public Object key() {
                if (kind == 0) {
                    throw new IllegalStateException("key");
                }
                return super.key();
            }

            @Override
            public Headers headers() {
                if (kind == 1) {
                    throw new StackOverflowError("headers");
                }
                return super.headers();
            }

            @Override
            public Object value() {
                if (kind == 2) {
                    throw new RuntimeException("value") {
                        @Override
                        public String getMessage() {
                            throw new IllegalArgumentException("no message either");
                        }
                    };
                }
                return super.value();
            }
        };
    }
}
