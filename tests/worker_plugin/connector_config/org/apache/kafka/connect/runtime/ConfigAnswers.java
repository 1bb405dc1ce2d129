package org.apache.kafka.connect.runtime;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;

/** Names the properties of each configuration that Connect's own definitions refuse. */
public class ConfigAnswers {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = json.readTree(line);
            Map<String, String> config = new HashMap<>();
            asked.get("config").properties().forEach(
                each -> config.put(each.getKey(), each.getValue().isNull() ? null : each.getValue().asText()));
            boolean sink = asked.get("kind").asText().equals("sink");
            ConfigDef definitions = sink ? SinkConnectorConfig.configDef() : SourceConnectorConfig.configDef();
            Map<String, ConfigValue> found = new HashMap<>();
            definitions.validate(config).forEach(each -> found.put(each.name(), each));
            if (sink) {
                SinkConnectorConfig.validate(config, found);
            }
            TreeSet<String> refused = new TreeSet<>();
            found.forEach((name, value) -> {
                if (!value.errorMessages().isEmpty()) {
                    refused.add(name);
                }
            });
            System.out.println(json.writeValueAsString(refused));
        }
    }
}
