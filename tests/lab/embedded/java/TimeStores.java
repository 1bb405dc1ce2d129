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
import org.apache.kafka.connect.runtime.ConnectorStatus;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.storage.ConfigBackingStore;
import org.apache.kafka.connect.storage.KafkaConfigBackingStore;
import org.apache.kafka.connect.storage.KafkaOffsetBackingStore;
import org.apache.kafka.connect.storage.KafkaStatusBackingStore;
import org.apache.kafka.connect.util.SharedTopicAdmin;

/**
 * Starts the three stores of Kafka Connect one after the other, as a worker does.
 *
 * <p>With the arguments worker file and number of runs it prints how long each store took to start, one JSON object a run. The
 * first run is that of a cold JVM. With worker file, number of puts, and puts before them that are not counted, it puts into the
 * running stores, waits each time until what was put can be read from the store, and prints the seconds, one JSON object a store.
 */
public final class TimeStores implements AutoCloseable {
    private static final long LOOK_EVERY_NANOS = 50_000;
    private static final String CLIENT = "time-stores-";
    private static final String NAME = "latency";

    private final SharedTopicAdmin admin;
    private final KafkaOffsetBackingStore offsets;
    private final KafkaStatusBackingStore status;
    private final KafkaConfigBackingStore configs;
    /** When the work began, and when the store of offsets, that of statuses, and that of configurations had started. */
    private final List<Long> times = new ArrayList<>();

    private TimeStores(DistributedConfig config) {
        Map<String, Object> adminSettings = new HashMap<>(config.originals());
        adminSettings.put("client.id", CLIENT + "admin");
        times.add(System.nanoTime());
        admin = new SharedTopicAdmin(adminSettings);
        offsets = new KafkaOffsetBackingStore(admin, () -> CLIENT, json(true));
        offsets.configure(config);
        offsets.start();
        times.add(System.nanoTime());
        status = new KafkaStatusBackingStore(Time.SYSTEM, json(false), admin, CLIENT);
        status.configure(config);
        status.start();
        times.add(System.nanoTime());
        configs = new KafkaConfigBackingStore(json(false), config, null, admin, CLIENT);
        configs.setUpdateListener(nobody());
        configs.start();
        times.add(System.nanoTime());
    }

    @Override
    public void close() {
        configs.stop();
        status.stop();
        offsets.stop();
        admin.close();
    }

    public static void main(String[] arguments) throws Exception {
        Properties file = Utils.loadProps(arguments[0]);
        DistributedConfig config = new DistributedConfig(Utils.propsToStringMap(file));
        config.kafkaClusterId(); // looked up once and kept: not part of a start
        int number = Integer.parseInt(arguments[1]);
        if (arguments.length == 2) {
            for (int run = 0; run < number; run++) {
                timeStart(config, run);
            }
        } else {
            timePuts(config, number, Integer.parseInt(arguments[2]));
        }
        System.out.flush();
    }

    private static void timeStart(DistributedConfig config, int run) {
        double cpuBegan = cpuSeconds();
        try (TimeStores stores = new TimeStores(config)) {
            double cpu = cpuSeconds() - cpuBegan;
            List<Long> at = stores.times;
            System.out.printf(
                Locale.ROOT,
                "{\"run\":%d,\"offsets_s\":%.6f,\"status_s\":%.6f,\"config_s\":%.6f,\"total_s\":%.6f,\"cpu_s\":%.6f,"
                    + "\"ready_at_s\":%.6f}%n",
                run, seconds(at.get(1) - at.get(0)), seconds(at.get(2) - at.get(1)), seconds(at.get(3) - at.get(2)),
                seconds(at.get(3) - at.get(0)), cpu, seconds(at.get(3)));
        }
    }

    private static void timePuts(DistributedConfig config, int puts, int uncounted) throws Exception {
        Map<String, List<Double>> taken = new LinkedHashMap<>();
        List.of("config", "offset", "status").forEach(store -> taken.put(store, new ArrayList<>()));
        try (TimeStores stores = new TimeStores(config)) {
            for (int put = -uncounted; put < puts; put++) {
                double[] seconds = {seconds(stores.putConfig(put)), seconds(stores.putOffset(put)), seconds(stores.putStatus(put))};
                if (put >= 0) {
                    taken.get("config").add(seconds[0]);
                    taken.get("offset").add(seconds[1]);
                    taken.get("status").add(seconds[2]);
                }
            }
        }
        taken.forEach((store, seconds) -> System.out.printf("{\"store\":\"%s\",\"seconds\":[%s]}%n", store,
            seconds.stream().map(each -> String.format(Locale.ROOT, "%.6f", each)).collect(Collectors.joining(","))));
    }

    private static double seconds(long nanos) {
        return nanos / 1e9;
    }

    /** CPU time of this process, all threads, with the resolution of the system's clock tick. */
    private static double cpuSeconds() {
        return ProcessHandle.current().info().totalCpuDuration().map(spent -> seconds(spent.toNanos())).orElse(0.0);
    }

    private long putConfig(int put) {
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

    private long putOffset(int put) throws Exception {
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

    private long putStatus(int put) {
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

    /** A store that has started calls its listener at every change, and needs one. */
    private static ConfigBackingStore.UpdateListener nobody() {
        return (ConfigBackingStore.UpdateListener) Proxy.newProxyInstance(
            TimeStores.class.getClassLoader(),
            new Class<?>[] {ConfigBackingStore.UpdateListener.class},
            (proxy, method, given) -> null);
    }

    private static JsonConverter json(boolean isKey) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), isKey);
        return converter;
    }
}
