package connectpeers;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records of other groups on the internal topics of one cluster: some before the first worker, then 100 a second. */
final class ForeignRecords {
    private static final int AT_ONCE = 10;
    private static final long EVERY_MS = 100;
    private static final long GENERATION = 100_000;
    // Those of Kafka's tests: a worker that takes another group's records has connectors that the test does not expect.
    private static final String[] CONNECTORS = {
        "simple-connector", "simple-conn", "simple-source", "test-connector", "connector", "blocking-connector",
        "normal-connector", "error-conn", "exactlyOnceQuestionMark", "foo-source", "bar-source", "baz-sink", "seq-source1",
        "connect-integration-test-sink",
    };

    private final KafkaProducer<byte[], byte[]> producer;
    private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor(work -> {
        Thread thread = new Thread(work, "foreign-records");
        thread.setDaemon(true);
        return thread;
    });
    private long written;

    ForeignRecords(Map<String, String> worker) {
        Map<String, Object> properties = Clusters.clientProperties(worker);
        properties.put("acks", "1");
        properties.put("max.block.ms", "2000");
        properties.put("request.timeout.ms", "2000");
        properties.put("delivery.timeout.ms", "3000");
        properties.put("enable.idempotence", "false");
        producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** The groups whose records stand beside those of a group: names that are alike, longer, and shorter by one letter. */
    static List<String> groups(String group) {
        return List.of("other", group + "2", group + ".sub", "x." + group, group.substring(0, group.length() - 1));
    }

    void add(Map<String, String> worker, int before) {
        Set<String> there = createTopics(worker);
        for (int i = 0; i < before; i++) {
            send(worker, there);
        }
        producer.flush();
        clock.scheduleAtFixedRate(() -> {
            for (int i = 0; i < AT_ONCE; i++) {
                send(worker, Set.of(KeyCount.KINDS));
            }
        }, EVERY_MS, EVERY_MS, TimeUnit.MILLISECONDS);
    }

    void close() {
        clock.shutdownNow();
        producer.close(Duration.ofSeconds(5));
    }

    private synchronized void send(Map<String, String> worker, Set<String> kinds) {
        long number = written++;
        String kind = KeyCount.KINDS[(int) (number % KeyCount.KINDS.length)];
        if (!kinds.contains(kind)) {
            return; // each record for a topic that is not there waits for max.block.ms
        }
        long rest = number / KeyCount.KINDS.length;
        List<String> groups = groups(worker.get("group.id"));
        String group = groups.get((int) (rest % groups.size()));
        rest /= groups.size();
        String connector = CONNECTORS[(int) (rest % CONNECTORS.length)];
        String[] record = record(kind, connector, rest / CONNECTORS.length);
        try {
            producer.send(new ProducerRecord<>(worker.get(kind + ".storage.topic"), bytes(group + "." + record[0]), bytes(record[1])));
        } catch (KafkaException away) {
            // Some tests stop brokers, or remove a topic.
        }
    }

    private static String[] record(String kind, String connector, long round) {
        switch (kind) {
            case "config":
                switch ((int) (round % 5)) {
                    case 0: return new String[] {"connector-" + connector,
                        "{\"properties\":{\"name\":\"" + connector + "\",\"connector.class\":\"of.another.Group\",\"tasks.max\":\"1\"}}"};
                    case 1: return new String[] {"task-" + connector + "-0", "{\"properties\":{\"task.class\":\"of.another.Group\"}}"};
                    case 2: return new String[] {"commit-" + connector, "{\"tasks\":1}"};
                    case 3: return new String[] {"target-state-" + connector, "{\"state\":\"PAUSED\",\"state.v2\":\"STOPPED\"}"};
                    default: return new String[] {"tasks-fencing-" + connector, "{\"tasks\":7}"};
                }
            case "status":
                String value = "{\"state\":\"FAILED\",\"trace\":\"of another group\",\"worker_id\":\"other:8083\",\"generation\":"
                    + (GENERATION + round) + "}";
                return new String[] {round % 2 == 0 ? "status-connector-" + connector : "status-task-" + connector + "-0", value};
            default:
                return new String[] {"[\"" + connector + "\",{\"saved\":\"" + round + "\"}]", "{\"saved\":" + (GENERATION + round) + "}"};
        }
    }

    // As the worker would make them; where it could not, the test expects so, and the worker says it.
    private Set<String> createTopics(Map<String, String> worker) {
        Set<String> there = new HashSet<>();
        List<NewTopic> topics = new ArrayList<>();
        for (String kind : KeyCount.KINDS) {
            String begin = kind + ".storage.";
            Map<String, String> settings = new HashMap<>();
            worker.forEach((name, value) -> {
                if (name.startsWith(begin)) {
                    settings.put(name.substring(begin.length()), value);
                }
            });
            String topic = settings.remove("topic");
            String partitions = settings.remove("partitions");
            String replicas = settings.remove("replication.factor");
            settings.put("cleanup.policy", "compact");
            int ofKind = kind.equals("config") ? 1 : kind.equals("status") ? 5 : 25;
            topics.add(new NewTopic(topic, partitions == null ? ofKind : Integer.parseInt(partitions),
                Short.parseShort(replicas == null ? "3" : replicas)).configs(settings));
        }
        try (Admin admin = Admin.create(Clusters.clientProperties(worker))) {
            for (NewTopic topic : topics) {
                try {
                    admin.createTopics(List.of(topic)).all().get(30, TimeUnit.SECONDS);
                } catch (ExecutionException | TimeoutException why) {
                    System.err.println("peers: " + topic.name() + " is not created here: " + why.getMessage());
                }
            }
            Set<String> names = admin.listTopics().names().get(30, TimeUnit.SECONDS);
            for (String kind : KeyCount.KINDS) {
                if (names.contains(worker.get(kind + ".storage.topic"))) {
                    there.add(kind);
                }
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException away) {
            System.err.println("peers: topics are not listed: " + away.getMessage());
        }
        return there;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
