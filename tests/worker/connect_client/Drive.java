import java.util.List;
import java.util.Map;
import org.sourcelab.kafka.connect.apiclient.Configuration;
import org.sourcelab.kafka.connect.apiclient.KafkaConnectClient;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorStatus;
import org.sourcelab.kafka.connect.apiclient.request.dto.NewConnectorDefinition;
import org.sourcelab.kafka.connect.apiclient.rest.exceptions.ResourceNotFoundException;

/** Runs a connector by all that kafka-connect-client has for it; ends with an error where an answer is not as it should be. */
public class Drive {
    public static void main(String[] arguments) throws Exception {
        KafkaConnectClient client = new KafkaConnectClient(new Configuration(arguments[0]));
        String file = arguments[1];
        String topic = arguments[2];
        check(!client.getConnectServerVersion().getKafkaClusterId().isEmpty(), "version");
        check(client.getConnectorPlugins().size() == 2, "plugins");
        Map<String, String> config = Map.of("connector.class", "FileStreamSource", "tasks.max", "1", "file", file, "topic", topic);
        check(client.addConnector(NewConnectorDefinition.newBuilder().withName("java").withConfig(config).build())
            .getName().equals("java"), "added");
        await(client, "RUNNING");
        check(client.getConnectors().equals(List.of("java")), "names");
        check(client.getConnectorsWithExpandedStatus().getAllStatuses().size() == 1, "expanded status");
        check(client.getConnectorsWithAllExpandedMetadata().getAllDefinitions().size() == 1, "expanded");
        check(client.getConnectorConfig("java").get("file").equals(file), "config");
        check(client.getConnectorTasks("java").size() == 1, "tasks");
        check(client.getConnectorTaskStatus("java", 0).getState().equals("RUNNING"), "task status");
        check(client.pauseConnector("java"), "paused");
        await(client, "PAUSED");
        check(client.resumeConnector("java"), "resumed");
        await(client, "RUNNING");
        check(client.restartConnector("java"), "restarted");
        check(client.restartConnectorTask("java", 0), "task restarted");
        await(client, "RUNNING");
        check(client.updateConnectorConfig("java", config).getName().equals("java"), "updated");
        check(client.getConnectorTopics("java").getTopics().equals(List.of(topic)), "topics");
        check(client.resetConnectorTopics("java"), "topics reset");
        check(client.deleteConnector("java"), "deleted");
        try {
            client.getConnector("java");
            check(false, "gone");
        } catch (ResourceNotFoundException expected) {
            System.out.println("done");
        }
    }

    private static void await(KafkaConnectClient client, String state) throws InterruptedException {
        long end = System.nanoTime() + 60_000_000_000L;
        while (true) {
            try {
                ConnectorStatus status = client.getConnectorStatus("java");
                if (status.getConnector().get("state").equals(state) && status.getTasks().size() == 1
                    && status.getTasks().iterator().next().getState().equals(state)) {
                    return;
                }
            } catch (ResourceNotFoundException notYet) {
                // its first status is not written yet
            }
            check(System.nanoTime() < end, state);
            Thread.sleep(50);
        }
    }

    private static void check(boolean is, String what) {
        if (!is) {
            throw new IllegalStateException("not " + what);
        }
    }
}
