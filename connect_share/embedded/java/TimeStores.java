import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.storage.KafkaConfigBackingStore;
import org.apache.kafka.connect.storage.KafkaOffsetBackingStore;
import org.apache.kafka.connect.storage.KafkaStatusBackingStore;
import org.apache.kafka.connect.util.SharedTopicAdmin;

/**
 * Starts the three stores of Kafka Connect one after the other, as a worker does, and prints how long each took.
 * Arguments: worker file, number of runs. Output: one JSON object a line. The first run is that of a cold JVM.
 */
public final class TimeStores {
    private TimeStores() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties file = Utils.loadProps(arguments[0]);
        DistributedConfig config = new DistributedConfig(Utils.propsToStringMap(file));
        int runs = Integer.parseInt(arguments[1]);
        config.kafkaClusterId(); // looked up once and kept: not part of a start
        for (int run = 0; run < runs; run++) {
            List<Double> seconds = new ArrayList<>();
            int connectors = 0;
            long offset = -1;
            Map<String, Object> adminSettings = new HashMap<>(config.originals());
            adminSettings.put("client.id", "time-stores-admin");
            double cpuBegan = cpuSeconds();
            long began = System.nanoTime();
            try (SharedTopicAdmin admin = new SharedTopicAdmin(adminSettings)) {
                KafkaOffsetBackingStore offsets =
                    new KafkaOffsetBackingStore(admin, () -> "time-stores-", json(true));
                offsets.configure(config);
                offsets.start();
                long offsetsReady = System.nanoTime();
                KafkaStatusBackingStore status =
                    new KafkaStatusBackingStore(Time.SYSTEM, json(false), admin, "time-stores-");
                status.configure(config);
                status.start();
                long statusReady = System.nanoTime();
                KafkaConfigBackingStore configs =
                    new KafkaConfigBackingStore(json(false), config, null, admin, "time-stores-");
                configs.start();
                long allReady = System.nanoTime();
                connectors = configs.snapshot().connectors().size();
                offset = configs.snapshot().offset();
                seconds.add((offsetsReady - began) / 1e9);
                seconds.add((statusReady - offsetsReady) / 1e9);
                seconds.add((allReady - statusReady) / 1e9);
                seconds.add((allReady - began) / 1e9);
                seconds.add(cpuSeconds() - cpuBegan);
                configs.stop();
                status.stop();
                offsets.stop();
            }
            System.out.printf(
                "{\"run\":%d,\"offsets_s\":%.6f,\"status_s\":%.6f,\"config_s\":%.6f,\"total_s\":%.6f,"
                    + "\"cpu_s\":%.6f,\"connectors\":%d,\"config_offset\":%d}%n",
                run, seconds.get(0), seconds.get(1), seconds.get(2), seconds.get(3), seconds.get(4), connectors,
                offset);
            System.out.flush();
        }
    }

    /** CPU time of this process, all threads, with the resolution of the system's clock tick. */
    private static double cpuSeconds() {
        return ProcessHandle.current().info().totalCpuDuration().map(spent -> spent.toNanos() / 1e9).orElse(0.0);
    }

    private static JsonConverter json(boolean isKey) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), isKey);
        return converter;
    }
}
