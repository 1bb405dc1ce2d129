package connectpeers;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Counts the keys of internal topics by whose they are, with a consumer that has nothing of the jar. */
final class KeyCount {
    static final String[] KINDS = {"config", "status", "offset"};
    private static final Map<String, Pattern> ORIGINAL = Map.of(
        "config", Pattern.compile("(connector|task|commit|target-state|restart-connector|tasks-fencing|logger-cluster)-.*|session-key"),
        "status", Pattern.compile("status-(connector|task|topic)-.*"),
        "offset", Pattern.compile("\\[.*", Pattern.DOTALL));
    private static final Duration POLL = Duration.ofMillis(500);
    private static final long LIMIT_NS = Duration.ofSeconds(60).toNanos();
    private static final byte SEALED = 1;

    private KeyCount() {
    }

    /** Writes one line for each topic to the file of the evidence. */
    static void write(Map<String, Map<String, String>> topics, int workers) {
        StringBuilder lines = new StringBuilder("{\"workers\":" + workers + "}\n");
        topics.forEach((topic, worker) -> {
            Map<String, Object> counted = new LinkedHashMap<>();
            try {
                counted.putAll(counted(topic, worker));
            } catch (RuntimeException failed) {
                counted.put("trouble", failed.toString());
            }
            lines.append(counted.entrySet().stream()
                .map(entry -> quoted(entry.getKey()) + ":" + (entry.getValue() instanceof String text ? quoted(text) : entry.getValue()))
                .collect(Collectors.joining(",", "{\"topic\":" + quoted(topic) + ",", "}\n")));
        });
        synchronized (KeyCount.class) {
            try {
                Files.writeString(Path.of(System.getProperty("peers.evidence")), lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException failed) {
                throw new java.io.UncheckedIOException(failed);
            }
        }
    }

    private static Map<String, Long> counted(String topic, Map<String, String> worker) {
        String kind = List.of(KINDS).stream().filter(each -> topic.equals(worker.get(each + ".storage.topic"))).findFirst().orElseThrow();
        Map<String, Long> counts = new LinkedHashMap<>();
        for (String name : new String[] {"own", "foreign", "plain", "other", "unsealed"}) {
            counts.put(name, 0L);
        }
        long deadline = System.nanoTime() + LIMIT_NS;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                Clusters.clientProperties(worker), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic, Duration.ofSeconds(10)).stream()
                .map(found -> new TopicPartition(topic, found.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions, Duration.ofSeconds(10));
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                if (System.nanoTime() - deadline > 0) {
                    throw new IllegalStateException("not read to its end in time");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    String whose = whose(kind, record.key(), worker.get("group.id"));
                    counts.merge(whose, 1L, Long::sum);
                    byte[] value = record.value();
                    if (whose.equals("own") && value != null && (value.length == 0 || value[0] != SEALED)) {
                        counts.merge("unsealed", 1L, Long::sum);
                    }
                }
            }
        }
        return counts;
    }

    private static String whose(String kind, byte[] bytes, String group) {
        String key = bytes == null ? "" : new String(bytes, StandardCharsets.UTF_8);
        Pattern original = ORIGINAL.get(kind);
        if (original.matcher(key).matches()) {
            return "plain";
        }
        if (key.startsWith(group + ".") && original.matcher(key.substring(group.length() + 1)).matches()) {
            return "own";
        }
        return ForeignRecords.groups(group).stream().anyMatch(other -> key.startsWith(other + ".")) ? "foreign" : "other";
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ") + "\"";
    }
}
