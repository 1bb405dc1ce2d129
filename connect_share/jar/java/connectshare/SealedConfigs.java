package connectshare;

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
    private String sealedPlace;

    /** Notes one own record; {@code value} is null for a removal. */
    synchronized void see(Object key, byte[] value, String place) {
        if (living == null) {
            return;
        }
        if (value == null) {
            living.remove(key);
            return;
        }
        boolean sealed = Seal.isSealed(value);
        living.put(key, sealed);
        sealedPlace = sealed ? place : sealedPlace;
    }

    /** Returns why nothing may be written, null: it may, and is not asked again. */
    synchronized String objection() {
        if (living == null) {
            return null;
        }
        long sealed = living.values().stream().filter(one -> one).count();
        if (sealed * 2 > living.size()) {
            return sealed + " of " + living.size() + " values of this group on the config topic look sealed, such as " + sealedPlace
                + ", but the worker file has no line " + Settings.SEALING_KEYS + ": put it back. If this group was never sealed, somebody "
                + "else may have written them to stop it: find out who, and set " + Settings.SEALING + "=off to start as a plain group";
        }
        living = null;
        return null;
    }
}
