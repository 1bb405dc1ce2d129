import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.AbstractStatus;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.ConnectorStatus;
import org.apache.kafka.connect.storage.ConfigBackingStore;
import org.apache.kafka.connect.storage.KafkaConfigBackingStore;
import org.apache.kafka.connect.storage.KafkaOffsetBackingStore;
import org.apache.kafka.connect.storage.KafkaStatusBackingStore;
import org.apache.kafka.connect.util.SharedTopicAdmin;

/**
 * Puts into the three running stores of Kafka Connect and waits each time until what was put can be read from the store.
 * Arguments: worker file, number of puts, puts before them that are not counted. Output: one JSON object a store, with the
 * seconds of each put.
 */
public final class TimePuts {
    private static final long LOOK_EVERY_NANOS = 50_000;
    private static final String NAME = "latency";

    private TimePuts() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties file = Utils.loadProps(arguments[0]);
        DistributedConfig config = new DistributedConfig(Utils.propsToStringMap(file));
        int puts = Integer.parseInt(arguments[1]);
        int uncounted = Integer.parseInt(arguments[2]);
        config.kafkaClusterId();
        Map<String, Object> adminSettings = new HashMap<>(config.originals());
        adminSettings.put("client.id", "time-puts-admin");
        Map<String, List<Double>> seconds = new LinkedHashMap<>();
        List.of("config", "offset", "status").forEach(store -> seconds.put(store, new ArrayList<>()));
        try (SharedTopicAdmin admin = new SharedTopicAdmin(adminSettings)) {
            KafkaOffsetBackingStore offsets = new KafkaOffsetBackingStore(admin, () -> "time-puts-", json(true));
            offsets.configure(config);
            offsets.start();
            KafkaStatusBackingStore status =
                new KafkaStatusBackingStore(Time.SYSTEM, json(false), admin, "time-puts-");
            status.configure(config);
            status.start();
            KafkaConfigBackingStore configs =
                new KafkaConfigBackingStore(json(false), config, null, admin, "time-puts-");
            configs.setUpdateListener(nobody());
            configs.start();
            for (int put = -uncounted; put < puts; put++) {
                double[] taken = {
                    seconds(putConfig(configs, put)), seconds(putOffset(offsets, put)), seconds(putStatus(status, put))};
                if (put >= 0) {
                    seconds.get("config").add(taken[0]);
                    seconds.get("offset").add(taken[1]);
                    seconds.get("status").add(taken[2]);
                }
            }
            configs.stop();
            status.stop();
            offsets.stop();
        }
        seconds.forEach((store, taken) -> System.out.printf("{\"store\":\"%s\",\"seconds\":[%s]}%n", store,
            taken.stream().map(each -> String.format(Locale.ROOT, "%.6f", each)).collect(Collectors.joining(","))));
        System.out.flush();
    }

    private static double seconds(long nanos) {
        return nanos / 1e9;
    }

    private static long putConfig(KafkaConfigBackingStore configs, int put) {
        String number = Integer.toString(put);
        long began = System.nanoTime();
        configs.putConnectorConfig(NAME, Map.of("name", NAME, "number", number), null);
        while (true) {
            Map<String, String> now = configs.snapshot().connectorConfig(NAME);
            if (now != null && number.equals(now.get("number"))) {
                return System.nanoTime() - began;
            }
            LockSupport.parkNanos(LOOK_EVERY_NANOS);
        }
    }

    private static long putOffset(KafkaOffsetBackingStore offsets, int put) throws Exception {
        ByteBuffer key = bytes("[\"" + NAME + "\",{\"file\":\"a\"}]");
        ByteBuffer value = bytes("{\"position\":" + put + "}");
        long began = System.nanoTime();
        offsets.set(Map.of(key, value), (error, nothing) -> { }).get(60, TimeUnit.SECONDS);
        while (true) {
            Map<ByteBuffer, ByteBuffer> now = offsets.get(List.of(key)).get(60, TimeUnit.SECONDS);
            if (value.equals(now.get(key))) {
                return System.nanoTime() - began;
            }
        }
    }

    private static long putStatus(KafkaStatusBackingStore status, int put) {
        int generation = put + 1_000_000;
        long began = System.nanoTime();
        status.put(new ConnectorStatus(NAME, AbstractStatus.State.RUNNING, "127.0.0.1:8083", generation));
        while (true) {
            ConnectorStatus now = status.get(NAME);
            if (now != null && now.generation() == generation) {
                return System.nanoTime() - began;
            }
            LockSupport.parkNanos(LOOK_EVERY_NANOS);
        }
    }

    private static ByteBuffer bytes(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    /** A store that has started tells of every change, and needs somebody to tell. */
    private static ConfigBackingStore.UpdateListener nobody() {
        return (ConfigBackingStore.UpdateListener) Proxy.newProxyInstance(
            TimePuts.class.getClassLoader(),
            new Class<?>[] {ConfigBackingStore.UpdateListener.class},
            (proxy, method, given) -> null);
    }

    private static JsonConverter json(boolean isKey) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), isKey);
        return converter;
    }
}
