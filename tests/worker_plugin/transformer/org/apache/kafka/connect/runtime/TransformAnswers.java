package org.apache.kafka.connect.runtime;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.config.ConfigTransformer;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.config.provider.DirectoryConfigProvider;
import org.apache.kafka.common.config.provider.FileConfigProvider;
import org.apache.kafka.connect.storage.AppliedConnectorConfig;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Answers, line by line, what Connect makes of configurations that refer to config providers, and what it writes of them. */
public final class TransformAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();

    private TransformAnswers() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigProvider> providers = new HashMap<>();
        for (Map.Entry<String, ConfigProvider> each : Map.<String, ConfigProvider>of(
            "f", new FileConfigProvider(), "d", new DirectoryConfigProvider()).entrySet()) {
            each.getValue().configure(Map.of("allowed.paths", arguments[0]));
            providers.put(each.getKey(), each.getValue());
        }
        ConfigTransformer transformer = new ConfigTransformer(providers);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Map<String, String>> asked = JSON.readValue(line, new TypeReference<>() { });
            System.out.println(JSON.writeValueAsString(answer(transformer, asked)));
        }
    }

    private static Map<String, Object> answer(ConfigTransformer transformer, Map<String, Map<String, String>> asked) {
        Map<String, String> raw = asked.get("raw");
        Map<ConnectorTaskId, Map<String, String>> written =
            asked.get("written") == null ? Map.of() : Map.of(new ConnectorTaskId("c", 0), asked.get("written"));
        ClusterConfigState state = new ClusterConfigState(
            1, null, Map.of("c", written.size()), Map.of("c", raw), Map.of(), written, Map.of(), Map.of(),
            Map.of("c", new AppliedConnectorConfig(asked.get("applied"))), Set.of(), Set.of());
        List<Map<String, String>> reversed = AbstractHerder.reverseTransform("c", state, List.of(asked.get("task")));
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("transformed", transformer.transform(raw).data());
        found.put("reversed", reversed.get(0));
        found.put("changed", AbstractHerder.taskConfigsChanged(state, "c", reversed));
        return found;
    }
}
