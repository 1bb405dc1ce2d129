package org.apache.kafka.connect.runtime;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.file.FileStreamSourceConnector;
import org.apache.kafka.connect.health.ConnectorType;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** Answers, line by line, what a worker makes of a connector's configuration for the clients of its own offsets topic. */
public final class ClientAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Class<FileStreamSourceConnector> SOURCE = FileStreamSourceConnector.class;

    private ClientAnswers() {
    }

    public static void main(String[] arguments) throws Exception {
        Plugins plugins = new Plugins(Map.of());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Map<String, String>> asked = JSON.readValue(line, new TypeReference<>() { });
            System.out.println(JSON.writeValueAsString(answer(plugins, asked.get("worker"), asked.get("connector"))));
        }
    }

    private static Map<String, Object> answer(
        Plugins plugins, Map<String, String> workerProperties, Map<String, String> properties
    ) {
        Map<String, Object> found = new LinkedHashMap<>();
        try {
            DistributedConfig worker = new DistributedConfig(workerProperties);
            ConnectorConfig connector = new ConnectorConfig(plugins, properties);
            ConnectorClientConfigOverridePolicy policy = plugins.newPlugin(
                worker.getString(WorkerConfig.CONNECTOR_CLIENT_POLICY_CLASS_CONFIG), worker, ConnectorClientConfigOverridePolicy.class);
            found.put("admin", Worker.adminConfigs("c", "id", worker, connector, SOURCE, policy, "cluster", ConnectorType.SOURCE));
            found.put("consumer", worker.exactlyOnceSourceEnabled()
                ? Worker.exactlyOnceSourceOffsetsConsumerConfigs("c", "id", worker, connector, SOURCE, policy, "cluster")
                : Worker.regularSourceOffsetsConsumerConfigs("c", "id", worker, connector, SOURCE, policy, "cluster"));
            found.put("producer", Worker.baseProducerConfigs("c", "id", worker, connector, SOURCE, policy, "cluster"));
            return found;
        } catch (Exception refused) {
            return Map.of("refused", refused.getClass().getSimpleName());
        }
    }
}
