package org.slf4j.impl;

import connectshare.CapturedLog;
import org.slf4j.ILoggerFactory;
import org.slf4j.spi.LoggerFactoryBinder;

/** Makes slf4j 1.7, which all versions of Kafka have, log into {@link CapturedLog}: found before Kafka's own binding. */
public final class StaticLoggerBinder implements LoggerFactoryBinder {
    public static final String REQUESTED_API_VERSION = "1.7";
    private static final StaticLoggerBinder SINGLETON = new StaticLoggerBinder();

    public static StaticLoggerBinder getSingleton() {
        return SINGLETON;
    }

    @Override
    public ILoggerFactory getLoggerFactory() {
        return CapturedLog::logger;
    }

    @Override
    public String getLoggerFactoryClassStr() {
        return CapturedLog.class.getName();
    }
}
