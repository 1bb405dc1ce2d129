package connectshare;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * What a worker without keys, and without a word about sealing, reads on its config topic until it writes for the first time.
 *
 * <p>More values that look sealed than plain ones: the line with the keys is missing from the worker's file, and what the worker
 * would write is plain, over sealed values that it cannot see. A single record decides nothing: anybody can write one.
 *
 * <p>The same as {@code connect_share/stores/config.py}. Thread-safe.
 */
final class SealedConfigs {
    // Whether the newest living value of each key looks sealed; null as soon as something was written.
    private Map<Object, Boolean> living = new HashMap<>();
    private long sealed;
    private String sealedPlace;

    /** Notes one own record. */
    synchronized void see(Object key, Object value, String place) {
        if (living == null) {
            return;
        }
        boolean removal = !(value instanceof byte[]) || Arrays.equals((byte[]) value, SealedTopics.JSON_NULL);
        boolean looks = !removal && Seal.isSealed((byte[]) value);
        Boolean before = removal ? living.remove(key) : living.put(key, looks);
        sealed += (looks ? 1 : 0) - (Boolean.TRUE.equals(before) ? 1 : 0);
        sealedPlace = looks ? place : sealedPlace;
    }

    /** Returns what speaks against a start as far as the topic was read, null: nothing does. */
    synchronized String soFar() {
        return living == null || sealed * 2 <= living.size() ? null
            : sealed + " of " + living.size() + " values of this group on the config topic look sealed, such as " + sealedPlace
                + ", but the worker file has no line " + Settings.SEALING_KEYS + ": put it back. If this group was never sealed, somebody "
                + "else may have written them to stop it: find out who, and set " + Settings.SEALING + "=off to start as a plain group";
    }

    /** Returns why nothing may be written, null: it may, and is not asked again. */
    synchronized String objection() {
        String found = soFar();
        living = found == null ? null : living;
        return found;
    }
}
