import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.dataformat.yaml.YAMLFactory;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.strimzi.api.kafka.model.common.UnknownPropertyPreserving;
import io.strimzi.api.kafka.model.connect.KafkaConnect;
import io.strimzi.api.kafka.model.connect.KafkaConnectSpec;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What Strimzi's own classes read out of KafkaConnect resources: a JSON list of YAML texts in, a JSON list of answers out. */
public final class StrimziAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();

    private StrimziAnswers() {
    }

    public static void main(String[] arguments) throws Exception {
        List<Object> answers = new ArrayList<>();
        for (String text : JSON.readValue(System.in, String[].class)) {
            answers.add(answer(text));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    private static Map<String, Object> answer(String text) throws Exception {
        ObjectMapper yaml = new ObjectMapper(new YAMLFactory());
        KafkaConnect resource = yaml.readValue(text, KafkaConnect.class);
        JsonNode given = yaml.readTree(text);
        KafkaConnectSpec spec = resource.getSpec();
        List<String> unknown = new ArrayList<>();
        unknown(resource, "", unknown);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("served", given.path("apiVersion").asText().equals(HasMetadata.getApiVersion(KafkaConnect.class))
            && given.path("kind").asText().equals(HasMetadata.getKind(KafkaConnect.class)));
        answer.put("unknown", unknown);
        answer.put("group.id", spec.getGroupId());
        answer.put("config.storage.topic", spec.getConfigStorageTopic());
        answer.put("offset.storage.topic", spec.getOffsetStorageTopic());
        answer.put("status.storage.topic", spec.getStatusStorageTopic());
        answer.put("bootstrap.servers", spec.getBootstrapServers());
        answer.put("config", spec.getConfig());
        answer.put("forbidden", KafkaConnectSpec.FORBIDDEN_PREFIXES.split("\\s*,\\s*"));
        answer.put("exceptions", KafkaConnectSpec.FORBIDDEN_PREFIX_EXCEPTIONS.split("\\s*,\\s*"));
        return answer;
    }

    /** Names what the classes have kept without knowing it. */
    private static void unknown(Object part, String path, List<String> found) throws IllegalAccessException {
        if (part instanceof UnknownPropertyPreserving known && known.getAdditionalProperties() != null) {
            known.getAdditionalProperties().keySet().forEach(name -> found.add(path + name));
        }
        for (Class<?> type = part.getClass(); type.getName().startsWith("io.strimzi.") || type.getName().startsWith("io.fabric8.");
                type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (!java.lang.reflect.Modifier.isStatic(field.getModifiers()) && !field.getType().isEnum()) {
                    field.setAccessible(true);
                    Object value = field.get(part);
                    if (value != null && value.getClass().getName().startsWith("io.strimzi.")) {
                        unknown(value, path + field.getName() + ".", found);
                    }
                }
            }
        }
    }
}
