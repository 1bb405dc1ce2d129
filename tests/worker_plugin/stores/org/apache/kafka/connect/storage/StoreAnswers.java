package org.apache.kafka.connect.storage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import connectshare.TopicSharingInterceptor;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.AbstractStatus;
import org.apache.kafka.connect.runtime.RestartRequest;
import org.apache.kafka.connect.runtime.SessionKey;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.util.Callback;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.util.Table;

/**
 * What the stores of Connect believe after a log, without a broker: a log for each line of standard input, an answer for each.
 *
 * <p>The records go to the callbacks that Connect's own log calls, one record to a poll, with a group through the interceptor of
 * the jar first. In this package because the stores show what they hold to their own tests only.
 */
public final class StoreAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Base64.Encoder BASE64 = Base64.getEncoder();
    private static final String TOPIC = "shared";
    private static final JsonConverter CONVERTER = new JsonConverter();
    private static final Map<String, TopicSharingInterceptor> INTERCEPTORS = new HashMap<>();

    private StoreAnswers() {
    }

    /** A worker's configuration that knows the id of its cluster, so that no broker is asked for it. */
    private static DistributedConfig offlineConfig() throws ReflectiveOperationException {
        DistributedConfig config = new DistributedConfig(Map.of(
            "bootstrap.servers", "localhost:1", "group.id", "group", "key.converter", JsonConverter.class.getName(),
            "value.converter", JsonConverter.class.getName(), "config.storage.topic", TOPIC, "status.storage.topic", "status-topic",
            "offset.storage.topic", "offset-topic"));
        field(WorkerConfig.class, "kafkaClusterId").set(config, "cluster");
        return config;
    }

    /** Where a log's records go. */
    private interface Store {
        void take(ConsumerRecord<Object, byte[]> record);

        default void started() {
            // Only the config store has a listener.
        }

        default Long offset() {
            return null;
        }

        Map<String, Object> state() throws ReflectiveOperationException;
    }

    public static void main(String[] arguments) throws Exception {
        CONVERTER.configure(Map.of("schemas.enable", "false"), false);
        DistributedConfig config = offlineConfig();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            StringBuilder answer = new StringBuilder();
            write(answer(JSON.readTree(line), config), answer);
            out.println(answer);
        }
        out.flush();
    }

    private static Map<String, Object> answer(JsonNode log, DistributedConfig config) throws Exception {
        List<Object> events = new ArrayList<>();
        List<Object> thrown = new ArrayList<>();
        List<Object> offsets = new ArrayList<>();
        long[] current = {-1};
        String type = log.get("type").textValue();
        Store store = switch (type) {
            case "config" -> new ConfigStore(config, event -> {
                List<Object> whole = new ArrayList<>(List.of(current[0]));
                whole.addAll(event);
                events.add(whole);
            });
            case "status" -> new StatusStore();
            default -> new OffsetStore();
        };
        long started = log.get("started").longValue();
        boolean told = false;
        for (ConsumerRecord<Object, byte[]> record : records(log, type)) {
            if (!told && record.offset() >= started) {
                store.started();
                told = true;
            }
            current[0] = record.offset();
            try {
                store.take(record);
            } catch (Throwable trouble) {
                thrown.add(List.of(record.offset(), trouble.getClass().getSimpleName()));
            }
            Long offset = store.offset();
            offsets.add(offset == null ? List.of(record.offset()) : List.of(record.offset(), offset));
        }
        Map<String, Object> answer = new TreeMap<>();
        answer.put("events", events);
        answer.put("offsets", offsets);
        answer.put("state", store.state());
        answer.put("thrown", thrown);
        return answer;
    }

    private static List<ConsumerRecord<Object, byte[]>> records(JsonNode log, String type) throws Exception {
        List<ConsumerRecord<Object, byte[]>> records = new ArrayList<>();
        for (JsonNode each : log.get("records")) {
            byte[] key = each.get(1).binaryValue();
            byte[] value = each.get(2).binaryValue();
            Object read = type.equals("offset") ? key : new StringDeserializer().deserialize(TOPIC, key);
            records.add(new ConsumerRecord<>(TOPIC, 0, each.get(0).longValue(), each.get(3).longValue(), TimestampType.CREATE_TIME,
                key == null ? -1 : key.length, value == null ? -1 : value.length, read, value, new RecordHeaders(), Optional.empty()));
        }
        return log.get("group").isNull() ? records : filtered(records, type, log.get("group").textValue());
    }

    /** What the jar hands to the store. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static List<ConsumerRecord<Object, byte[]>> filtered(
            List<ConsumerRecord<Object, byte[]>> records, String type, String group) {
        TopicSharingInterceptor interceptor = INTERCEPTORS.computeIfAbsent(type + " " + group, absent -> {
            Map<String, Object> properties = new HashMap<>(Map.of("connect.management.topic.sharing.support", "enabled",
                "interceptor.classes", "connectshare.TopicSharingInterceptor", "group.id", group));
            for (String other : List.of("config", "status", "offset")) {
                properties.put(other + ".storage.topic", other.equals(type) ? TOPIC : other + "-topic");
            }
            TopicSharingInterceptor made = new TopicSharingInterceptor();
            made.configure(properties);
            return made;
        });
        Map polled = records.isEmpty() ? Map.of() : Map.of(new TopicPartition(TOPIC, 0), records);
        List<ConsumerRecord<Object, byte[]>> kept = new ArrayList<>();
        for (Object record : interceptor.onConsume(new ConsumerRecords(polled, Map.of()))) {
            kept.add((ConsumerRecord<Object, byte[]>) record);
        }
        return kept;
    }

    private static Field field(Class<?> type, String name) throws NoSuchFieldException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static final class ConfigStore implements Store {
        private final KafkaConfigBackingStore store;
        private final Callback<ConsumerRecord<String, byte[]>> callback;

        @SuppressWarnings("unchecked")
        ConfigStore(DistributedConfig config, Consumer<List<Object>> listener) throws ReflectiveOperationException {
            store = new KafkaConfigBackingStore(CONVERTER, config, null, () -> null, "", Time.SYSTEM);
            store.setUpdateListener(new Listener(listener));
            Class<?> type = Class.forName(KafkaConfigBackingStore.class.getName() + "$ConsumeCallback");
            Constructor<?> constructor = type.getDeclaredConstructor(KafkaConfigBackingStore.class);
            constructor.setAccessible(true);
            callback = (Callback<ConsumerRecord<String, byte[]>>) constructor.newInstance(store);
        }

        @Override
        @SuppressWarnings({"unchecked", "rawtypes"})
        public void take(ConsumerRecord<Object, byte[]> record) {
            callback.onCompletion(null, (ConsumerRecord<String, byte[]>) (ConsumerRecord) record);
        }

        @Override
        public void started() {
            try {
                field(KafkaConfigBackingStore.class, "started").setBoolean(store, true);
            } catch (ReflectiveOperationException other) {
                throw new IllegalStateException(other);
            }
        }

        @Override
        public Long offset() {
            return store.snapshot().offset();
        }

        @Override
        public Map<String, Object> state() {
            ClusterConfigState snapshot = store.snapshot();
            Map<String, Object> applied = new TreeMap<>();
            snapshot.appliedConnectorConfigs.forEach((name, config) -> applied.put(name, properties(config.transformedConfig(null))));
            Map<String, Object> connectors = new TreeMap<>();
            snapshot.connectorConfigs.forEach((name, config) -> connectors.put(name, properties(config)));
            Map<String, Object> deferred = new TreeMap<>();
            store.deferredTaskUpdates.forEach((name, tasks) -> deferred.put(name, byTask(tasks).getOrDefault(name, Map.of())));
            Map<String, Object> state = new TreeMap<>();
            state.put("applied", applied);
            state.put("committed", byTask(snapshot.taskConfigs));
            state.put("connectors", connectors);
            state.put("deferred", deferred);
            state.put("generations", snapshot.connectorTaskConfigGenerations);
            state.put("inconsistent", new ArrayList<>(snapshot.inconsistentConnectors()));
            state.put("pending_fencing", new ArrayList<>(snapshot.connectorsPendingFencing));
            state.put("session_key", key(snapshot.sessionKey()));
            state.put("target_states", names(snapshot.connectorTargetStates));
            state.put("task_count_records", snapshot.connectorTaskCountRecords);
            state.put("task_counts", snapshot.connectorTaskCounts);
            return state;
        }

        private static Map<String, Object> names(Map<String, ? extends Enum<?>> states) {
            Map<String, Object> names = new TreeMap<>();
            states.forEach((name, state) -> names.put(name, state.name()));
            return names;
        }

        private static Map<String, Map<String, Object>> byTask(Map<ConnectorTaskId, Map<String, String>> tasks) {
            Map<String, Map<String, Object>> found = new TreeMap<>();
            tasks.forEach((task, config) -> found.computeIfAbsent(task.connector(), absent -> new TreeMap<>())
                .put(String.valueOf(task.task()), properties(config)));
            return found;
        }
    }

    /** Properties as they came: their values need not be texts. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Map<String, Object> properties(Map<String, ?> config) {
        Map<String, Object> flat = new TreeMap<>();
        ((Map<String, Object>) (Map) config).forEach((name, value) -> flat.put(name, scalar(value)));
        return flat;
    }

    /** One text for any value, so that a reader of answers meets no deep nesting: its type, and what it is. */
    private static Object scalar(Object value) {
        if (value == null || value instanceof Boolean) {
            return value;
        }
        StringBuilder text = new StringBuilder();
        write(value, text);
        return text.toString();
    }

    private static Object key(SessionKey key) {
        return key == null ? null
            : List.of(BASE64.encodeToString(key.key().getEncoded()), key.key().getAlgorithm(), key.creationTimestamp());
    }

    /** Notes who was told what. */
    private static final class Listener implements ConfigBackingStore.UpdateListener {
        private final Consumer<List<Object>> events;

        Listener(Consumer<List<Object>> events) {
            this.events = events;
        }

        @Override
        public void onConnectorConfigRemove(String connector) {
            events.accept(List.of("removed", connector));
        }

        @Override
        public void onConnectorConfigUpdate(String connector) {
            events.accept(List.of("updated", connector));
        }

        @Override
        public void onTaskConfigUpdate(Collection<ConnectorTaskId> tasks) {
            List<String> names = new ArrayList<>();
            tasks.forEach(task -> names.add(task.toString()));
            events.accept(List.of("tasks", names));
        }

        @Override
        public void onConnectorTargetStateChange(String connector) {
            events.accept(List.of("target state", connector));
        }

        @Override
        public void onSessionKeyUpdate(SessionKey sessionKey) {
            events.accept(List.of("session key", key(sessionKey)));
        }

        @Override
        public void onRestartRequest(RestartRequest request) {
            events.accept(List.of("restart", request.connectorName(), request.onlyFailed(), request.includeTasks()));
        }

        @Override
        public void onLoggingLevelUpdate(String namespace, String level) {
            events.accept(List.of("level", namespace, level));
        }
    }

    private static final class StatusStore implements Store {
        private final KafkaStatusBackingStore store = new KafkaStatusBackingStore(Time.SYSTEM, CONVERTER, () -> null, "");

        @Override
        @SuppressWarnings({"unchecked", "rawtypes"})
        public void take(ConsumerRecord<Object, byte[]> record) {
            store.read((ConsumerRecord<String, byte[]>) (ConsumerRecord) record);
        }

        @Override
        @SuppressWarnings("unchecked")
        public Map<String, Object> state() throws ReflectiveOperationException {
            Map<String, Object> connectors = new TreeMap<>();
            for (String name : store.connectors()) {
                connectors.put(name, status(store.get(name)));
            }
            Map<String, Object> tasks = new TreeMap<>();
            for (String name : ((Map<String, ?>) field(Table.class, "table").get(store.tasks)).keySet()) {
                Map<String, Object> row = new TreeMap<>();
                store.getAll(name).forEach(task -> row.put(String.valueOf(task.id().task()), status(task)));
                if (!row.isEmpty()) {
                    tasks.put(name, row);
                }
            }
            Map<String, Object> topics = new TreeMap<>();
            store.topics.forEach((name, found) -> {
                Map<String, Object> row = new TreeMap<>();
                found.forEach((topic, status) -> row.put(topic, topic(status)));
                if (!row.isEmpty()) {
                    topics.put(name, row);
                }
            });
            return new TreeMap<>(Map.of("connectors", connectors, "tasks", tasks, "topics", topics));
        }

        private static List<Object> status(AbstractStatus<?> status) {
            return Arrays.asList(
                status.state().name(), status.workerId(), status.generation(), status.trace(), status.version());
        }

        private static List<Object> topic(TopicStatus status) {
            return List.of(status.topic(), status.connector(), status.task(), status.discoverTimestamp());
        }
    }

    private static final class OffsetStore implements Store {
        private final KafkaOffsetBackingStore store = new KafkaOffsetBackingStore(() -> null, () -> "", CONVERTER);

        @Override
        @SuppressWarnings({"unchecked", "rawtypes"})
        public void take(ConsumerRecord<Object, byte[]> record) {
            store.consumedCallback.onCompletion(null, (ConsumerRecord<byte[], byte[]>) (ConsumerRecord) record);
        }

        @Override
        @SuppressWarnings("unchecked")
        public Map<String, Object> state() throws ReflectiveOperationException {
            Map<String, Object> data = new TreeMap<>();
            store.data.forEach((key, value) -> data.put(text(key), text(value)));
            Map<String, Object> partitions = new TreeMap<>();
            Object found = field(KafkaOffsetBackingStore.class, "connectorPartitions").get(store);
            ((Map<String, Set<Map<String, Object>>>) found).forEach((name, each) -> {
                List<Object> texts = new ArrayList<>();
                each.forEach(partition -> texts.add(scalar(partition)));
                if (!texts.isEmpty()) {
                    partitions.put(name, texts);
                }
            });
            return new TreeMap<>(Map.of("data", data, "partitions", partitions));
        }

        private static String text(ByteBuffer bytes) {
            return bytes == null ? "none" : BASE64.encodeToString(bytes.array());
        }
    }

    /** JSON with members sorted by their escaped names; a double is its 64 bits. */
    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> sorted = new TreeMap<>();
            map.forEach((name, item) -> {
                StringBuilder escaped = new StringBuilder();
                write(String.valueOf(name), escaped);
                sorted.put(escaped.toString(), item);
            });
            String before = "{";
            for (Map.Entry<String, Object> entry : sorted.entrySet()) {
                out.append(before).append(entry.getKey()).append(':');
                write(entry.getValue(), out);
                before = ",";
            }
            out.append(before.equals("{") ? "{}" : "}");
        } else if (value instanceof Collection<?> items) {
            String before = "[";
            for (Object item : items) {
                out.append(before);
                write(item, out);
                before = ",";
            }
            out.append(before.equals("[") ? "[]" : "]");
        } else if (value instanceof String text) {
            out.append('"');
            for (int i = 0; i < text.length(); i++) {
                char c = text.charAt(i);
                if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') {
                    out.append(String.format("\\u%04x", (int) c));
                } else {
                    out.append(c);
                }
            }
            out.append('"');
        } else if (value instanceof Double number) {
            out.append("\"double ").append(Long.toHexString(Double.doubleToLongBits(number))).append('"');
        } else {
            out.append(value);
        }
    }
}
