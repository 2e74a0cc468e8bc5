/*
 * What others may ask of this process, and how it answers: one line.
 *
 *   trim [SIZE]               give cached memory back, all or so much
 *   trim-for BYTES UUID MS    the same for a neighbour that has run out, as
 *                             far as reserve_floor allows, within MS
 *   limit SIZE|unlimited      the cap, on each device the process sees
 *   reset-peak                peaks start again from what is now
 *   report                    write a report
 *   ping                      are you there?
 *
 * The answer is "ok" or "no", a blank, and what happened.
 */
#ifndef GP_SHIM_CONTROL_H
#define GP_SHIM_CONTROL_H

/* Does what `text` asks; `answer` has room for GP_REQUEST_TEXT bytes. gpupool's
 * own thread. */
void gp_control(const char *text, char *answer);

#endif
