package connectshare;

import static connectshare.Checks.equal;
import static connectshare.Checks.stops;
import static connectshare.Checks.that;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.internals.ConsumerInterceptors;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.clients.producer.internals.ProducerInterceptors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;

/** Inside what Kafka's clients call, which swallows exceptions; and from several threads. */
final class ChainChecks {
    private ChainChecks() {
    }

    /** Another interceptor: fails, or makes every key an integer, or does nothing. */
    private record Neighbour(String does) implements ProducerInterceptor<Object, Object>, ConsumerInterceptor<Object, Object> {
        @Override
        public ProducerRecord<Object, Object> onSend(ProducerRecord<Object, Object> record) {
            if (does.equals("throws")) {
                throw new IllegalStateException("neighbour");
            }
            return does.equals("integers") ? new ProducerRecord<>(record.topic(), 7, record.value()) : record;
        }

        @Override
        public ConsumerRecords<Object, Object> onConsume(ConsumerRecords<Object, Object> records) {
            if (does.equals("throws")) {
                throw new IllegalStateException("neighbour");
            }
            if (!does.equals("integers")) {
                return records;
            }
            List<ConsumerRecord<Object, Object>> changed = new ArrayList<>();
            records.forEach(record -> changed.add(Worker.read(record.topic(), record.partition(), record.offset(), 7, record.value())));
            return Worker.poll(changed.toArray(new ConsumerRecord[0]));
        }

        @Override
        public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
            // Not looked at.
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            // Not looked at.
        }

        @Override
        public void close() {
            // Nothing to close.
        }

        @Override
        public void configure(Map<String, ?> configs) {
            // Nothing to configure.
        }
    }

    @SuppressWarnings("unchecked")
    private static <T> T chain(Class<T> type, Object... interceptors) {
        try {
            Constructor<?> constructor = type.getConstructors()[0];
            List<Object> list = List.of(interceptors);
            return (T) (constructor.getParameterCount() == 1 ? constructor.newInstance(list) : constructor.newInstance(list, new Metrics()));
        } catch (ReflectiveOperationException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** Kafka's chain of a producer: what comes out for a shared topic has the prefix, or an error does. */
    @SuppressWarnings("unchecked")
    public static void producers() {
        Random random = Checks.random();
        for (int i = 0; i < 1_000; i++) {
            try (Worker worker = new Worker()) {
                String before = random.nextInt(3) == 0 ? "integers" : random.nextBoolean() ? "throws" : "nothing";
                ProducerInterceptors<Object, Object> chain = chain(ProducerInterceptors.class,
                    new Neighbour(before), worker.first, new Neighbour(random.nextBoolean() ? "throws" : "nothing"));
                boolean closed = false;
                for (int j = 0; j < 6; j++) {
                    String topic = Worker.TOPICS[random.nextInt(3)];
                    boolean good = random.nextInt(3) > 0;
                    Object key = good ? Worker.goodKey(topic, "x") : Worker.HOSTILE_KEYS.get(random.nextInt(Worker.HOSTILE_KEYS.size()));
                    good &= !before.equals("integers");
                    ProducerRecord<Object, Object> record = Worker.toSend(topic, key, null);
                    if (!good && key instanceof byte[] && !topic.equals(Worker.OFFSET) || closed || !good) {
                        stops(() -> chain.onSend(record), topic + key);
                        closed = true;
                    } else {
                        equal(chain.onSend(record).key(), Worker.prefixed(Worker.GROUP, key), topic + key);
                    }
                }
            }
        }
    }

    /** Kafka's chain of a consumer: only own records come out, or an error does. */
    @SuppressWarnings("unchecked")
    public static void consumers() {
        Random random = Checks.random();
        for (int i = 0; i < 1_000; i++) {
            try (Worker worker = new Worker()) {
                String before = random.nextInt(4) == 0 ? "integers" : random.nextBoolean() ? "throws" : "nothing";
                ConsumerInterceptors<Object, Object> chain = chain(ConsumerInterceptors.class,
                    new Neighbour(before), worker.first, new Neighbour(random.nextBoolean() ? "throws" : "nothing"));
                boolean closed = false;
                for (int j = 0; j < 4; j++) {
                    String topic = Worker.TOPICS[random.nextInt(3)];
                    Object own = Worker.goodKey(topic, "x");
                    boolean hostile = before.equals("integers") || random.nextInt(4) == 0;
                    ConsumerRecords<Object, Object> polled = Worker.poll(
                        Worker.read(topic, 0, 0, own, null), Worker.read(topic, 0, 1, Worker.prefixed("com.acme", own), null),
                        Worker.read(topic, 1, 0, Worker.prefixed("com.acme.orders", own), null), Worker.read(topic, 2, 0, hostile ? 7 : null, null));
                    if (closed) {
                        equal(chain.onConsume(polled).count(), 0, "closed");
                    } else if (hostile) {
                        stops(() -> chain.onConsume(polled), topic);
                        closed = true;
                    } else {
                        List<ConsumerRecord<Object, Object>> got = Worker.list(chain.onConsume(polled));
                        equal(got.size(), 1, topic);
                        equal(got.get(0).offset(), 1L, topic);
                        equal(got.get(0).key(), own, topic);
                    }
                }
            }
        }
    }

    /** Many threads send and read while one meets the unexpected: said once, and after that nothing passes anywhere. */
    public static void threads() throws Exception {
        for (int round = 0; round < 20; round++) {
            CapturedLog.clear();
            try (Worker worker = new Worker()) {
                AtomicInteger sent = new AtomicInteger();
                AtomicInteger read = new AtomicInteger();
                Queue<Object> wrong = new ConcurrentLinkedQueue<>();
                AtomicBoolean closed = new AtomicBoolean();
                CountDownLatch running = new CountDownLatch(6);
                List<Thread> threads = new ArrayList<>();
                Object key = Worker.goodKey(Worker.STATUS, "x");
                for (int i = 0; i < 6; i++) {
                    int number = i;
                    TopicSharingInterceptor client = number < 3 ? worker.first : worker.client();
                    threads.add(new Thread(() -> {
                        for (int j = 0;; j++) {
                            boolean late = closed.get();
                            try {
                                if (number % 2 == 0) {
                                    Object got = client.onSend(Worker.toSend(Worker.STATUS, key, null)).key();
                                    sent.incrementAndGet();
                                    if (late || !got.equals("com.acme." + key)) {
                                        wrong.add(got);
                                        return;
                                    }
                                } else {
                                    List<ConsumerRecord<Object, Object>> got = Worker.list(client.onConsume(Worker.poll(
                                        Worker.read(Worker.STATUS, 0, 0, "com.acme." + key, null), Worker.read(Worker.STATUS, 0, 1, key, null))));
                                    read.addAndGet(got.size());
                                    if (got.isEmpty()) {
                                        return;
                                    }
                                    if (late || got.size() > 1 || got.get(0).offset() != 0) {
                                        wrong.add(got);
                                        return;
                                    }
                                }
                            } catch (TopicSharingError stopped) {
                                return;
                            } catch (Throwable other) {
                                wrong.add(other);
                                return;
                            } finally {
                                if (j == 100) {
                                    running.countDown();
                                }
                            }
                        }
                    }));
                }
                threads.forEach(Thread::start);
                that(running.await(120, TimeUnit.SECONDS), "threads ended before they were to: " + wrong);
                stops(() -> worker.first.onSend(Worker.toSend(Worker.STATUS, 7, null)), "hostile");
                closed.set(true);
                equal(worker.first.onConsume(Worker.poll(Worker.read(Worker.STATUS, 0, 0, 7, null))).count(), 0, "hostile");
                for (Thread thread : threads) {
                    thread.join();
                }
                equal(new ArrayList<>(wrong), Collections.emptyList(), "wrong");
                equal(CapturedLog.lines("ERROR Topic sharing stopped").size(), 1, CapturedLog.lines("ERROR"));
                that(sent.get() > 0 && read.get() > 0, "nothing ran");
                equal(LifeChecks.counter(Worker.STATUS, "RewrittenRecords"), (long) sent.get(), "sent");
                equal(LifeChecks.counter(Worker.STATUS, "OwnRecords"), (long) read.get(), "read");
                Worker.stopped(worker.first, "after");
            }
        }
    }

    /** Workers that come and go while others do: the last one out takes the counters, and no one is left without. */
    public static void comingAndGoing() throws Exception {
        List<Thread> threads = new ArrayList<>();
        Queue<Object> wrong = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < 4; i++) {
            threads.add(new Thread(() -> {
                try {
                    for (int j = 0; j < 500; j++) {
                        TopicSharingInterceptor client = new TopicSharingInterceptor();
                        client.configure(Worker.properties());
                        Worker.alive(client, j);
                        LifeChecks.counter(Worker.CONFIG, "Stopped");
                        client.close();
                    }
                } catch (Throwable trouble) {
                    wrong.add(trouble);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        equal(new ArrayList<>(wrong), Collections.emptyList(), "wrong");
        equal(CapturedLog.lines("WARN").size(), 0, CapturedLog.lines("WARN"));
    }
}
