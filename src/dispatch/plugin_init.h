/* plugin_init.h - a program, or a part of one, handed to a plugin. */
#ifndef ACCEL_DISPATCH_PLUGIN_INIT_H
#define ACCEL_DISPATCH_PLUGIN_INIT_H

#include "dispatch/endpoint.h"

/* Calls the device's plugin with what self->placed says: precision, source and streaming are set,
 * handle becomes the plugin's endpoint.  `host` is lent with `self` until cleanup. */
accel_status accel__plugin_init(const accel__host_self *self, const accel_plugin_host *host,
                                const accel__device *device);

#endif
