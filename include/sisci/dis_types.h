/* Types that SISCI programs take from the DIS headers. SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef DIS_TYPES_H
#define DIS_TYPES_H

/* Most node ids that a name can stand for. */
#define DIS_MAX_NODEID_LIST 64

/* Most adapters of a node. */
#define DIS_MAX_NSCIS 16

/* Node ids, ended by 0. */
typedef unsigned int dis_nodeId_list_t[DIS_MAX_NODEID_LIST];

/* An adapter as programs know it. */
typedef unsigned int dis_virt_adapter_t;
typedef dis_virt_adapter_t dis_adapter_type_t;

#endif
