/* services.h - what a plugin is lent by the core (accel_plugin_host), for one endpoint. */
#ifndef ACCEL_DISPATCH_SERVICES_H
#define ACCEL_DISPATCH_SERVICES_H

#include "dispatch/endpoint.h"

/* The services for whoever `self` is, which must outlive them. */
accel_plugin_host accel__host_for(accel__host_self *self);
/* Fills ep->host and ep->host_self.  cache_get and cache_put go to the context's cache,
 * each key behind the identity of the plugin's and the library's code. */
void accel__init_host(accel_endpoint *ep);

/* Steps of the next runs go to `fn`; NULL: to nobody. */
void accel__set_profile(accel_endpoint *ep, accel_profile_fn fn, void *user);
/* A plugin's step in the words of the program that the plugin has; false: it names no node of it. */
bool accel__profile_report(const accel_plugin_program *program, const accel_plugin_step *step,
                           accel_profile_step *out);

/* What the endpoint's rows have read so far, and how long its runs took. */
accel_stream_stats accel__streaming_stats(accel_endpoint *ep);
/* Reads what the last run but one has read, and computes nothing.  ACCEL_ERROR_ARGUMENT: the
 * endpoint does not stream, or has not run twice. */
accel_status accel__stream_read(accel_endpoint *ep, uint64_t *bytes, double *seconds);
/* Whether the plugin's runs tell which layer they have reached, as progress of the context: so it
 * is for streaming endpoints, whose runs may take minutes. */
void accel__offer_progress(accel_endpoint *ep, bool on);

/* Has the context's cache an entry of the plugin's key, or could it take one of so many bytes?
 * false: *why is a sentence with a remedy. */
bool accel__cache_can_hold(accel_endpoint *ep, const accel_plugin *plugin, const char *key,
                           uint64_t bytes, char *why, size_t size);

/* Of the endpoint's weights: what accel__program_identify takes. */
uint64_t accel__weights_identity(const accel_endpoint *ep);

#endif
